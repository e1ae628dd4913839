// Long lists: only the visible rows are in the page, so ten thousand scroll like ten.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";
import { useFilter } from "./address.js";
import { t } from "./words.js";

const ROW = 44;
const BEYOND = 12;

// A list. `columns` are `[label, cell(row), class?]`; the first is the row's heading. `rows` are those of `all` that pass a
// filter; `empty` is shown if there is none. All rows have the same height. If there is a `detail(row)`, it stands below the
// row whose key is in the address, and `onOpen(row)` is called when it opens.
export function List({ rows, all = rows, columns, keyOf = (row) => String(row.id), onOpen, detail, label, empty = t("Nothing matches the filter.") }) {
  const box = useRef(null);
  const [opened, setOpened] = useFilter("open");
  const [seen, setSeen] = useState({ first: 0, count: 40 });
  const [detailHeight, setDetailHeight] = useState(0);
  const isOpened = (row) => detail && keyOf(row) === opened;
  let openIndex = rows.findIndex(isOpened);
  // A filter does not hide the open row while it has unsaved changes.
  const place = useRef(0);
  const hidden = opened && openIndex < 0 && box.current?.querySelector(".detail .unsaved") && all.find(isOpened);
  if (hidden) {
    openIndex = Math.min(place.current, rows.length);
    rows = rows.toSpliced(openIndex, 0, hidden);
  }
  place.current = openIndex;
  const open = useRef(null);

  useEffect(() => {
    const measure = () => {
      const top = box.current?.getBoundingClientRect().top ?? 0;
      let above = Math.max(0, -top);
      if (openIndex >= 0 && above > (openIndex + 1) * ROW) above = Math.max((openIndex + 1) * ROW, above - detailHeight);
      const first = Math.max(0, Math.floor(above / ROW) - BEYOND);
      const count = Math.ceil(innerHeight / ROW) + 2 * BEYOND;
      setSeen((before) => (before.first === first && before.count === count ? before : { first, count }));
    };
    measure();
    addEventListener("scroll", measure, { passive: true });
    addEventListener("resize", measure);
    return () => { removeEventListener("scroll", measure); removeEventListener("resize", measure); };
  }, [rows.length, openIndex, detailHeight]);

  useLayoutEffect(() => {
    if (!open.current) return undefined;
    const watch = new ResizeObserver(() => setDetailHeight(open.current?.offsetHeight ?? 0));
    watch.observe(open.current);
    return () => watch.disconnect();
  }, [openIndex, opened]);

  // If the address opens a row, the focus scrolls it into view.
  const focused = useRef("");
  useEffect(() => {
    if (!opened) focused.current = "";
    if (openIndex < 0 || focused.current === opened) return;
    focused.current = opened;
    box.current.querySelector(".open .opener").focus();
  }, [opened, openIndex]);

  const end = Math.min(rows.length, seen.first + seen.count);
  const drawn = Array.from({ length: Math.max(0, end - seen.first) }, (_, at) => seen.first + at);
  // The open row stays in the page even if it is out of view: the user may have typed something in it.
  if (openIndex >= end) drawn.push(openIndex);
  else if (openIndex >= 0 && openIndex < seen.first) drawn.unshift(openIndex);
  const gap = (many) => many > 0 && html`<div style=${{ height: `${many * ROW}px` }} aria-hidden="true"></div>`;
  let next = 0;
  const toggle = (row) => { setOpened(isOpened(row) ? "" : keyOf(row)); onOpen?.(row); };

  if (!rows.length) return html`<div class="empty">${empty}</div>`;
  return html`
    <div class="list" role="table" aria-label=${label} aria-rowcount=${rows.length + 1} ref=${box}>
      <div class="row head" role="row">${columns.map(([name, , kind], at) => html`<div role="columnheader" class=${kind} key=${at}>${name}</div>`)}</div>
      ${drawn.flatMap((index) => {
        const row = rows[index];
        const key = keyOf(row);
        const isOpen = isOpened(row);
        const skipped = index - next;
        next = index + 1;
        return html`${gap(skipped)}
          <div class="row ${isOpen ? "open" : ""} ${detail ? "opens" : ""}" role="row" key=${key} aria-rowindex=${index + 2}
            onClick=${(event) => { if (detail && !event.target.closest("button, a, input, select, label")) toggle(row); }}>
            ${columns.map(([, cell, kind], at) => html`<div role=${at ? "cell" : "rowheader"} class=${kind} key=${at}>
              ${at === 0 && detail ? html`<button class="link opener" aria-expanded=${isOpen} onClick=${() => toggle(row)}>
                <span aria-hidden="true">${isOpen ? "▾" : "▸"}</span><bdi>${cell(row)}</bdi></button>` : cell(row)}</div>`)}
          </div>
          ${isOpen && html`<div class="detail" role="row" ref=${open} key=${`${key}-detail`}><div role="cell">${detail(row)}</div></div>`}`;
      })}
      ${gap(rows.length - next)}
    </div>`;
}

// The buttons for turning pages; `page` counts from 1.
export function Pages({ page, pageSize, total, onChange }) {
  const last = Math.max(1, Math.ceil(total / pageSize));
  if (last === 1 && page === 1) return null;
  const turn = (by) => { onChange(Math.min(page + by, last)); scrollTo(0, 0); };
  return html`<nav class="pages" aria-label=${t("Pages")}>
    <button disabled=${page <= 1} onClick=${() => turn(-1)}>${t("Newer", "较新")}</button>
    <span>${t("Page {page} of {last}", "第 {page} 页，共 {last} 页", { page, last })}</span>
    <button disabled=${page >= last} onClick=${() => turn(1)}>${t("Older", "较旧")}</button>
  </nav>`;
}
