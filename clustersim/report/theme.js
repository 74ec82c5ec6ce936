(() => {
  try {
    const theme = localStorage.getItem("clustersim-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch { /* no storage: the theme of the system */ }
})();
