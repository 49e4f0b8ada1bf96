// The graph as a tree: modules, and in them nodes, inputs and weights. Only the rows in sight are elements, so a graph
// of any size scrolls smoothly. Arrow keys move as in every tree; a node shows what it reads and who reads it.
import { element } from "./elements.js";

const ROW = 26;
const NODE = /^(.*?) = ([^<(\s]+)(<.*>)?\((.*?)\)(?:  # (.*))?$/;

/** Splits at commas that are in no brackets and quotes. */
export function split(text) {
  const out = [];
  let depth = 0, quoted = false, from = 0;
  for (let i = 0; i < text.length; ++i) {
    const c = text[i];
    if (quoted) quoted = c === "\\" ? (++i, true) : c !== '"';
    else if (c === '"') quoted = true;
    else if ("([{<".includes(c)) ++depth;
    else if (")]}>".includes(c)) --depth;
    else if (c === "," && depth === 0) {
      out.push(text.slice(from, i).trim());
      from = i + 1;
    }
  }
  if (text.slice(from).trim()) out.push(text.slice(from).trim());
  return out;
}

/** "name : float32[2]" */
function named(text) {
  const at = text.indexOf(" : ");
  return at < 0 ? { name: text.trim(), type: "" } : { name: text.slice(0, at).trim(), type: text.slice(at + 3) };
}

/** "/layers/0/Add_output_0" is in layers, 0. */
const modulesOf = (name) => name.replace(/^"|"$/g, "").split("/").slice(0, -1).filter(Boolean);

const shortName = (name) => name.replace(/^"|"$/g, "").split("/").pop();

/** A line of the graph's text, or null where it has nothing to show. `body` is the path of the body that it is in. */
function entryOf(line, body) {
  const declared = /^(input|weight|output) (?!: )(.*)$/.exec(line);
  if (declared) {
    const [, kind, text] = declared;
    return { kind, op: kind, outputs: [named(text)], inputs: [], path: body ?? [`${kind}s`], line };
  }
  const node = NODE.exec(line);
  if (!node) return null;
  const outputs = split(node[1]).map(named);
  return {
    kind: "node", op: node[2], attributes: node[3]?.slice(1, -1) ?? "", inputs: split(node[4]), outputs,
    path: body ?? modulesOf(outputs[0].name), where: node[5] ?? "", line,
  };
}

/** All entries. A node with bodies is several lines: "y : float32[] = If<then_branch={", the body, "}>(condition)". */
function* entriesOf(text) {
  const open = []; // nodes in whose bodies the line is
  for (const line of text.split("\n")) {
    const top = open.at(-1);
    const begins = /(\w+)=\{$/.exec(line);
    if (begins && line.startsWith("}")) {
      top.head += line;
    } else if (begins) {
      const name = named(split(line.split(" = ")[0])[0]).name;
      open.push({ head: line, name, path: top?.body ?? modulesOf(name), outer: top?.body });
    } else {
      const entry = line.startsWith("}") ? entryOf(top.head + line, open.pop().outer) : entryOf(line, top?.body);
      if (entry) yield entry;
    }
    if (begins) open.at(-1).body = [...open.at(-1).path, `${begins[1]} of ${shortName(open.at(-1).name)}`];
  }
}

/** The tree of all entries, and who makes and reads each value. */
export function parse(text) {
  const root = { children: [], folders: new Map(), count: 0 };
  const readers = new Map(), makers = new Map();
  for (const entry of entriesOf(text)) {
    let at = root;
    for (const name of entry.path) {
      if (!at.folders.has(name)) {
        const folder = { folder: name, children: [], folders: new Map(), count: 0, open: false };
        at.folders.set(name, folder);
        at.children.push(folder);
      }
      at = at.folders.get(name);
      ++at.count;
    }
    at.children.push({ entry });
    ++root.count;
    if (entry.kind !== "output") for (const value of entry.outputs) makers.set(value.name, entry);
    for (const name of entry.inputs) {
      if (!readers.has(name)) readers.set(name, []);
      readers.get(name).push(entry);
    }
  }
  return { root, readers, makers };
}

export class GraphView {
  constructor({ tree, search, found, node }) {
    Object.assign(this, { tree, search, found, node }, parse(""));
    this.body = tree.firstElementChild;
    this.rows = [];
    this.selected = null;
    tree.addEventListener("scroll", () => this.#draw(), { passive: true });
    new ResizeObserver(() => this.#draw()).observe(tree);
    tree.addEventListener("click", (event) => {
      const row = this.rows[event.target.closest(".row")?.dataset.index];
      if (!row) return;
      this.#select(row);
      if (row.item.folder !== undefined) this.#toggle(row.item, !row.item.open);
    });
    tree.addEventListener("keydown", (event) => this.#key(event));
    search.addEventListener("input", () => this.#list());
  }

  show(text) {
    Object.assign(this, parse(text));
    for (const item of this.root.children) item.open = item.folder === "inputs" || item.folder === "outputs";
    if (this.root.count < 200) this.#openAll(this.root);
    for (const name of ["weights"]) if (this.root.folders.has(name)) this.root.folders.get(name).open = false;
    this.selected = null;
    this.search.value = "";
    this.node.replaceChildren();
    this.#list();
  }

  #openAll(folder) {
    folder.open = true;
    for (const child of folder.folders.values()) this.#openAll(child);
  }

  /** The rows in sight of open folders, or those with all words of the search. */
  #list() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = [];
    let hits = 0;
    const add = (row) => {
      const { item, depth } = row;
      if (item.entry) {
        if (!words.every((word) => item.entry.line.toLowerCase().includes(word))) return;
        rows.push(row);
        ++hits;
        return;
      }
      const at = rows.length;
      rows.push(row);
      if (words.length > 0 || item.open) addAll(item.children, depth + 1);
      if (words.length > 0 && rows.length === at + 1) rows.pop();
    };
    const addAll = (items, depth) => {
      const siblings = words.length > 0 ? -1 : items.length; // -1: not known
      items.forEach((item, i) => add({ item, depth, position: i + 1, siblings }));
    };
    addAll(this.root.children, 0);
    this.rows = rows;
    this.found.textContent = words.length > 0 ? `${hits} of ${this.root.count} match` : `${this.root.count} entries`;
    this.body.style.height = `${rows.length * ROW}px`;
    if (!rows.some((row) => row.item === this.selected)) this.selected = null;
    this.#draw();
  }

  #draw() {
    const first = Math.max(0, Math.floor(this.tree.scrollTop / ROW) - 10);
    const last = Math.min(this.rows.length, first + Math.ceil(this.tree.clientHeight / ROW) + 20);
    this.body.replaceChildren(...this.rows.slice(first, last).map((row, i) => this.#row(row, first + i)));
  }

  #row({ item, depth, position, siblings }, index) {
    const row = element("div", { class: "row", role: "treeitem", "aria-level": depth + 1, id: `row-${index}`, "data-index": index });
    row.setAttribute("aria-setsize", siblings);
    row.setAttribute("aria-posinset", position);
    row.setAttribute("aria-selected", item === this.selected);
    row.style.top = `${index * ROW}px`;
    row.style.paddingLeft = `${0.6 + depth * 1.1}rem`;
    if (item.entry) {
      const { op, outputs, kind } = item.entry;
      const name = shortName(outputs[0].name);
      row.append(element("b", {}, kind === "node" ? op : ""), kind === "node" ? " " : "", name, element("i", {}, `  ${outputs[0].type}`));
    } else {
      const open = item.open || this.search.value.trim() !== "";
      row.setAttribute("aria-expanded", open);
      row.append(open ? "\u25be " : "\u25b8 ", item.folder, element("i", {}, `  ${item.count}`));
    }
    if (item === this.selected) this.tree.setAttribute("aria-activedescendant", row.id);
    return row;
  }

  #toggle(folder, open) {
    folder.open = open;
    this.#list();
  }

  #select(row) {
    this.selected = row.item;
    const at = this.rows.indexOf(row) * ROW;
    if (at < this.tree.scrollTop) this.tree.scrollTop = at;
    else if (at + ROW > this.tree.scrollTop + this.tree.clientHeight) this.tree.scrollTop = at + ROW - this.tree.clientHeight;
    this.#draw();
    if (row.item.entry) this.#describe(row.item.entry);
    else this.node.replaceChildren();
  }

  #key(event) {
    const at = this.rows.findIndex((row) => row.item === this.selected);
    const item = this.rows[at]?.item;
    const page = Math.max(1, Math.floor(this.tree.clientHeight / ROW) - 1);
    const to = { ArrowDown: at + 1, ArrowUp: Math.max(at - 1, 0), Home: 0, End: this.rows.length - 1, PageDown: at + page, PageUp: at - page };
    if (event.key in to) {
      const row = this.rows[Math.min(Math.max(to[event.key], 0), this.rows.length - 1)];
      if (row) this.#select(row);
    } else if (event.key === "ArrowRight" && item?.folder !== undefined) {
      this.#toggle(item, true);
    } else if (event.key === "ArrowLeft" && item?.folder !== undefined && item.open) {
      this.#toggle(item, false);
    } else if (event.key === "ArrowLeft" && at > 0) {
      const parent = this.rows.slice(0, at).findLast((row) => row.depth < this.rows[at].depth);
      if (parent) this.#select(parent);
    } else if (event.key === "Enter" && item?.folder !== undefined) {
      this.#toggle(item, !item.open);
    } else {
      return;
    }
    event.preventDefault();
  }

  /** Opens the folders of an entry and selects it. */
  #go(entry) {
    this.search.value = "";
    let folder = this.root;
    for (const name of entry.path) {
      folder = folder.folders.get(name);
      folder.open = true;
    }
    this.#list();
    const row = this.rows.find(({ item }) => item.entry === entry);
    if (row) this.#select(row);
    this.tree.focus();
  }

  #describe(entry) {
    const link = (label, target) => {
      if (!target || target === entry) return label;
      const button = element("button", { type: "button", class: "link" }, label);
      button.addEventListener("click", () => this.#go(target));
      return button;
    };
    const list = element("dl");
    const row = (label, ...content) => {
      if (content.length > 0) list.append(element("dt", {}, label), element("dd", {}, ...content));
    };
    const lines = (items) => items.flatMap((item, i) => (i > 0 ? [element("br"), item] : [item]));
    row(entry.kind === "node" ? "operator" : entry.kind, entry.kind === "node" ? entry.op : entry.outputs[0].name);
    if (entry.attributes) row("attributes", entry.attributes);
    const typed = (name) => {
      const type = this.makers.get(name)?.outputs.find((value) => value.name === name)?.type;
      return element("span", {}, link(name, this.makers.get(name)), type ? `  ${type}` : "");
    };
    row("reads", ...lines(entry.inputs.map(typed)));
    row(entry.kind === "node" ? "gives" : "type", ...lines(entry.outputs.map(({ name, type }) => (entry.kind === "node" ? `${name}  ${type}` : type))));
    const readers = entry.outputs.flatMap(({ name }) => this.readers.get(name) ?? []);
    row("read by", ...lines(readers.slice(0, 20).map((reader) => link(`${reader.op} ${reader.outputs[0].name}`, reader))));
    if (entry.where) row("source", entry.where);
    this.node.replaceChildren(list);
  }
}
