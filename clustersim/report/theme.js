(() => {
  try {
    const theme = localStorage.getItem("clustersim-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch { /* no storage: the theme of the system */ }
  if (window !== window.parent) document.documentElement.dataset.framed = "";
})();
