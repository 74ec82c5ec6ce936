// Painting: a figure in the colours of a theme, wide or narrow. The report and `clustersim serve` share this.
const paint = (value, theme) => {
  if (typeof value === "string") return value[0] === "@" ? theme[value.slice(1)] : value;
  if (Array.isArray(value)) return value.map((item) => paint(item, theme));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, paint(item, theme)]));
};

const merge = (base, over) => {
  const result = { ...base };
  for (const [key, value] of Object.entries(over)) {
    const both = [result[key], value].every((one) => one && typeof one === "object" && !Array.isArray(one));
    result[key] = both ? merge(result[key], value) : value;
  }
  return result;
};

// The traces and the layout of a figure at a width, in the colours of a theme.
const drawing = (figure, width, narrow, theme) => {
  let layout = { ...figure.layout, width };
  if (narrow) layout = merge({ ...layout, dragmode: false }, figure.narrow);
  return { data: paint((narrow && figure.narrow_traces) || figure.traces, theme), layout: paint(layout, theme) };
};
