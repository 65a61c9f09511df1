// Turns a table inside .filterable into one that can be narrowed down: a search field, and a list of
// the values that occur for every column whose heading is in CHOICES. The address keeps the choice
// (?verdict=undecided&paper=FATS), so that a filtered table can be linked to. Without JavaScript the
// whole table is shown.
document.addEventListener("DOMContentLoaded", () => {
  const CHOICES = ["paper", "verdict", "setting"];
  for (const box of document.querySelectorAll(".filterable")) {
    const table = box.querySelector("table");
    const headings = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
    const rows = [...table.querySelectorAll("tbody tr")];
    const cells = rows.map((row) => [...row.cells].map((cell) => cell.textContent.trim()));
    rows.forEach((row) => [...row.cells].forEach((cell, i) => (cell.dataset.column = headings[i])));

    const form = document.createElement("form");
    form.className = "filter";
    form.addEventListener("submit", (event) => event.preventDefault());
    const asked = new URLSearchParams(location.search);
    const add = (label, control) => {
      const wrapped = document.createElement("label");
      control.name = label;
      control.value = asked.get(label) ?? "";
      wrapped.append(label, control);
      form.append(wrapped);
      return control;
    };
    const search = document.createElement("input");
    search.type = "search";
    add("text", search);
    const lists = CHOICES.filter((name) => headings.includes(name)).map((name) => {
      const column = headings.indexOf(name);
      const list = document.createElement("select");
      list.add(new Option("all", ""));
      for (const value of new Set(cells.map((row) => row[column]))) list.add(new Option(value));
      return { column, control: add(name, list) };
    });
    const count = document.createElement("output");
    const clear = document.createElement("button");
    clear.type = "button";
    clear.textContent = "Show all";
    clear.addEventListener("click", () => {
      for (const control of [search, ...lists.map((list) => list.control)]) control.value = "";
      update();
    });
    form.append(clear, count);

    const update = () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, i) => {
        const text = cells[i].join(" ").toLowerCase();
        const fits =
          lists.every(({ column, control }) => !control.value || cells[i][column] === control.value) &&
          words.every((word) => text.includes(word));
        row.hidden = !fits;
        shown += fits;
      });
      count.textContent = `${shown} of ${rows.length} shown`;
      const kept = new URLSearchParams();
      for (const control of form.elements) if (control.name && control.value) kept.set(control.name, control.value);
      const query = kept.toString();
      history.replaceState(null, "", location.pathname + (query ? `?${query}` : "") + location.hash);
    };
    form.addEventListener("input", update);
    box.prepend(form);
    update();
  }
});
