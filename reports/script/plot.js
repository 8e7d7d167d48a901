// Marks of a drawing: told at once where the pointer rests, and walked through by keyboard.
(() => {
  foretrace.plot = (svg) => {
    const marks = [...svg.querySelectorAll("title")].map((title) => {
      const mark = title.parentElement;
      mark.dataset.says = title.textContent;
      title.remove(); // the browser's own is slow, and would be a second one
      return mark;
    }).filter((mark) => mark !== svg);
    if (!marks.length) return;
    let at = -1;
    const tell = (mark, x, y) => foretrace.tip(mark?.dataset.says.split("\n"), x, y);
    svg.addEventListener("pointermove", (event) => {
      const mark = event.target.closest("[data-says]");
      tell(mark && svg.contains(mark) ? mark : null, event.clientX, event.clientY);
    });
    svg.addEventListener("pointerleave", () => foretrace.tip(null));
    svg.setAttribute("tabindex", "0");
    svg.setAttribute("role", "application");
    const named = `figure, ${marks.length} marks; arrow keys tell each`;
    svg.setAttribute("aria-label", named);
    function go(way) {
      marks[at]?.classList.remove("at");
      at = (at + way + marks.length) % marks.length;
      marks[at].classList.add("at");
      const box = marks[at].getBoundingClientRect();
      svg.setAttribute("aria-label", marks[at].dataset.says);
      tell(marks[at], Math.max(box.left, 0) + Math.min(box.width / 2, 200), box.bottom - 8);
    }
    svg.addEventListener("keydown", (event) => {
      const way = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (way) event.preventDefault(), go(at < 0 && way < 0 ? 0 : way);
    });
    svg.addEventListener("blur", () => {
      marks[at]?.classList.remove("at");
      at = -1;
      svg.setAttribute("aria-label", named);
      foretrace.tip(null);
    });
  };
})();
