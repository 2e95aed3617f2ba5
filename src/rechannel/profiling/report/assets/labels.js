// Names of the rows that are in sight: buttons that fold and unfold, with the share of the critical path.

const TEXT = 15; // height of a line of text
const INDENT = 12;
const BESIDE = 84; // arrow, share and margins next to a name

const measuring = document.createElement("canvas").getContext("2d");

/** The width of a text in a label. */
function textWidth(text) {
  measuring.font = "12px system-ui, sans-serif";
  return measuring.measureText(text).width;
}

/** How many lines a name takes in a width. Words break anywhere, so some room is lost. */
function linesOf(name, width) {
  return Math.max(1, Math.ceil((textWidth(name) * 1.06) / Math.max(40, width)));
}

class Labels {
  constructor(box, tree, turned) {
    this.box = box;
    this.tree = tree;
    this.turned = turned;
    this.made = new Map();
  }

  /** Show labels. boxes: by row: left, top, width, height. chosen: the row of the keyboard, or -1. */
  show(boxes, chosen) {
    for (const [at, made] of this.made) {
      if (boxes.has(at)) continue;
      made.remove();
      this.made.delete(at);
    }
    // Labels lie in the order of their rows, for Tab and for readers of the screen; none that has the focus is moved.
    let next = this.box.firstChild;
    for (const [at, place] of boxes) {
      const label = this.made.get(at) || this.make(at);
      if (label === next) next = next.nextSibling;
      else this.box.insertBefore(label, next);
      const folds = this.tree.folds(at);
      label.style.cssText = `left:${place.left}px;top:${place.top}px;width:${place.width}px;height:${place.height}px;padding-left:${6 + INDENT * this.tree.rows[at].depth}px`;
      label.classList.toggle("at", at === chosen);
      if (folds) label.setAttribute("aria-expanded", String(this.tree.open.has(at)));
    }
  }

  make(at) {
    const row = this.tree.rows[at];
    const share = percent(row.critical);
    const folds = this.tree.folds(at);
    const told = `${row.name}, ${share} of the critical path${folds ? `, ${numbered(row.workers.length, "row")}` : ""}`;
    const made = element(
      folds ? "button" : "div",
      { class: "label", "data-row": at, ...(folds ? { type: "button", "aria-label": told } : {}) },
      element("span", { class: "name" }, row.name),
      element("span", { class: "share" }, share),
    );
    if (folds) made.addEventListener("click", () => this.turned(at));
    this.made.set(at, made);
    return made;
  }
}
