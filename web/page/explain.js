// What a diagnostic code means: its section of docs/codes.md, which is beside the page.

let page;

function paragraphs(markdown) {
  const out = [];
  for (const [i, part] of markdown.split(/^```\w*\n/m).entries()) {
    if (i % 2 === 1) {
      const pre = document.createElement("pre");
      pre.textContent = part.trimEnd();
      out.push(pre);
      continue;
    }
    for (const text of part.split(/\n\s*\n/)) {
      if (!text.trim()) continue;
      const p = document.createElement("p");
      text.trim().replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replaceAll("**", "").split("`").forEach((piece, at) => {
        const node = document.createElement(at % 2 === 1 ? "code" : "span");
        node.textContent = piece;
        p.append(node);
      });
      out.push(p);
    }
  }
  return out;
}

/** Shows the section of a code in a dialog. */
export async function explain(code, dialog) {
  page ??= await (await fetch("codes.md")).text();
  const section = page.split(/^## /m).find((part) => part.startsWith(code)) ?? `${code}\n\nThis code is not documented.`;
  const end = section.indexOf("\n");
  dialog.querySelector("h2").textContent = section.slice(0, end).trim();
  dialog.querySelector("div").replaceChildren(...paragraphs(section.slice(end)));
  dialog.showModal();
}
