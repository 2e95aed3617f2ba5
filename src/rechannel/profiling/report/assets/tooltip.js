// What lies under the pointer, in words, next to it and within the window.

const tooltip = {
  box: null,

  /** Show lines next to a point. title: text. lines: [kind or null, text]. */
  show(x, y, title, lines) {
    if (!this.box) {
      this.box = element("div", { id: "tooltip", role: "tooltip" });
      document.body.append(this.box);
    }
    const told = lines.map(([kind, text]) => element("div", {}, ...(kind ? [swatch(kind)] : []), element("span", {}, text)));
    this.box.replaceChildren(element("b", {}, title), ...told);
    this.box.hidden = false;
    const { width, height } = this.box.getBoundingClientRect();
    const left = x + 14 + width > innerWidth - 8 ? x - 14 - width : x + 14;
    const top = y + 14 + height > innerHeight - 8 ? y - 14 - height : y + 14;
    this.box.style.left = `${Math.max(8, Math.min(left, innerWidth - width - 8))}px`;
    this.box.style.top = `${Math.max(8, top)}px`;
  },

  hide() {
    if (this.box) this.box.hidden = true;
  },
};
