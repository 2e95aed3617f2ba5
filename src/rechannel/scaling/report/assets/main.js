// The reader chooses the colours. Everything else of the page is there without a script.

const byId = (id) => document.getElementById(id);

startTheme(() => {});
