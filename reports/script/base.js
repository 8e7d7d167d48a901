// Ground of all components: numbers as text, elements, colours, the tooltip.
const foretrace = {};

(() => {
  const PREFIXES = [[1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"], [1e-12, "p"]];
  const LARGE = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

  // Three digits, no exponent, as reports/numbers.py has them.
  function threeDigits(value) {
    if (!value) return "0";
    const places = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
    const text = value.toFixed(Math.min(places, 20));
    return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  }

  foretrace.quantity = (value, unit = "s") => {
    const size = Math.abs(value);
    if (unit === "") return `${threeDigits(100 * value)} %`;
    if (unit === "s" && size >= 600) return `${threeDigits(value / 60)} min`;
    for (const [scale, prefix] of unit === "s" ? PREFIXES : [...LARGE, ...PREFIXES])
      if (size >= scale * 0.9995) return `${threeDigits(value / scale)} ${prefix}${unit}`;
    return `0 ${unit}`;
  };

  // Value of a text such as "34.8 ms", "12 %" or "1,234"; NaN of what is no number.
  foretrace.sizeOf = (text) => {
    const found = /^\s*([-+±]?)\s*([\d,]*\.?\d+(?:e[-+]?\d+)?)\s*(.*)$/i.exec(text);
    if (!found) return NaN;
    const value = Number(found[2].replaceAll(",", "")) * (found[1] === "-" ? -1 : 1);
    const unit = found[3].split(/[\s(]/)[0];
    const binary = { KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 }[unit];
    if (binary) return value * binary;
    if (unit === "min" || unit === "h") return value * (unit === "h" ? 3600 : 60);
    if (unit.length < 2 || /^[A-Z]{3}/.test(unit)) return value;
    const scale = [...LARGE, ...PREFIXES].find(([, p]) => p && unit.startsWith(p));
    return value * (scale && /^.(s|B|b|W|F|U|Hz|J)/.test(unit) ? scale[0] : 1);
  };

  foretrace.make = (tag, attributes = {}, ...inside) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes))
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value !== undefined && value !== false) made.setAttribute(name, value);
    made.append(...inside);
    return made;
  };

  // What a custom property is here and now: light, dark or paper.
  foretrace.colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(name).trim() || name;

  foretrace.onColours = (redraw) =>
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  // Ink of a text on a bar: the page's own on those as pale as the page.
  foretrace.inkOn = (name) => (["idle", "host", "tint"].includes(name) ? "--ink" : "--on-bar");

  // Round steps of an axis: a few between two ends.
  foretrace.steps = (first, last, most) => {
    const rough = (last - first) / Math.max(most, 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((m) => m * power >= rough * 0.9999);
    const found = [];
    for (let k = Math.ceil(first / step); k * step <= last; k++) found.push(k * step);
    return [found, step];
  };

  const tip = foretrace.make("div", { class: "tip", role: "tooltip" });
  foretrace.tip = (lines, x, y) => {
    if (!lines) return void tip.remove();
    tip.replaceChildren(...lines.map((text, i) => foretrace.make(i ? "div" : "b", {}, text)));
    document.body.append(tip);
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 8))}px`;
    tip.style.top = `${y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18}px`;
  };

  // A file that the reader keeps.
  foretrace.save = (name, parts, type) => {
    const address = URL.createObjectURL(parts instanceof Blob ? parts : new Blob([parts], { type }));
    foretrace.make("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  };

  foretrace.fileName = (...words) =>
    words.filter(Boolean).join(" ").toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 60);
})();
