// Light and dark: as the system has it, unless the reader chooses. A frame without storage forgets the choice.

const THEME = "rechannel-theme";

function stored() {
  try {
    return localStorage.getItem(THEME);
  } catch {
    return null;
  }
}

/** Let the switch work. changed: called after every change, by the reader or the system. */
function startTheme(changed) {
  const choice = byId("theme");
  const root = document.documentElement;
  const set = (theme) => {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
    changed();
  };
  choice.value = ["light", "dark"].includes(stored()) ? stored() : "auto";
  choice.addEventListener("change", () => {
    try {
      localStorage.setItem(THEME, choice.value);
    } catch {
      // The choice holds for this view of the page.
    }
    set(choice.value);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  set(choice.value);
}

/** Colours of the present theme. */
function inks() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  return { paper: of("paper"), ink: of("ink"), faint: of("faint"), line: of("line"), row: of("row"), mark: of("mark"), markText: of("mark-text"), heat: of("heat"), accent: of("accent") };
}
