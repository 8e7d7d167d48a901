// Figures as files: what is seen of one, text and marks, as one SVG with its colours written out.
(() => {
  const { make } = foretrace;
  const SVG = "http://www.w3.org/2000/svg";
  const PAINT = ["fill", "stroke", "stroke-width", "stroke-dasharray", "fill-opacity", "stroke-opacity", "opacity"];

  function drawn(tag, attributes, text) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text) made.textContent = text;
    return made;
  }

  // A copy of a drawing with the colours that it has now.
  function inked(svg) {
    const copy = svg.cloneNode(true), all = [svg, ...svg.querySelectorAll("*")];
    [copy, ...copy.querySelectorAll("*")].forEach((one, i) => {
      const style = getComputedStyle(all[i]);
      for (const name of PAINT) if (one.tagName !== "title") one.setAttribute(name, style.getPropertyValue(name));
      one.removeAttribute("style");
    });
    return copy;
  }

  foretrace.figureSvg = (figure) => {
    const box = figure.getBoundingClientRect();
    const whole = drawn("svg", { xmlns: SVG, width: box.width, height: box.height });
    whole.append(drawn("rect", { width: "100%", height: "100%", fill: foretrace.colour("--paper") }));
    const seen = (one) => one.getClientRects().length && !one.closest(".tools, .tip");
    for (const svg of figure.querySelectorAll("svg")) {
      if (svg.parentElement.closest("svg") || !seen(svg)) continue;
      const at = svg.getBoundingClientRect(), copy = inked(svg);
      for (const [name, value] of Object.entries({ x: at.x - box.x, y: at.y - box.y, width: at.width, height: at.height }))
        copy.setAttribute(name, value);
      whole.append(copy);
    }
    for (const one of figure.querySelectorAll("span, i, text, div")) {
      if (one.closest("svg") || !seen(one)) continue;
      const at = one.getBoundingClientRect(), style = getComputedStyle(one);
      if (one.tagName === "I")
        whole.append(drawn("rect", { x: at.x - box.x, y: at.y - box.y, width: at.width, height: at.height, fill: style.backgroundColor }));
      const text = [...one.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data).join("").trim();
      if (!text) continue;
      const range = document.createRange();
      range.selectNodeContents(one);
      const ink = range.getBoundingClientRect(), shift = one.querySelector("i") ? 17 : 0;
      whole.append(drawn("text", { x: ink.x - box.x + shift, y: ink.y - box.y + ink.height * 0.76, fill: style.color,
        "font-size": style.fontSize, "font-family": "system-ui, Arial, sans-serif" }, text));
    }
    return new XMLSerializer().serializeToString(whole);
  };

  foretrace.saving = (figure, name) => {
    const save = () => foretrace.save(`${name}.svg`, foretrace.figureSvg(figure), "image/svg+xml");
    const button = make("button", { type: "button", title: "save this figure as SVG", onclick: save }, "SVG");
    figure.prepend(make("div", { class: "tools corner" }, button));
  };
})();
