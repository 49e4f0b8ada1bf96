/** The element of the page with an id. */
export const $ = (id) => document.getElementById(id);

/** A new element with attributes and contents. */
export function element(tag, attributes = {}, ...children) {
  const out = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) out.setAttribute(name, value);
  out.append(...children);
  return out;
}
