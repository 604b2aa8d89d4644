// Draws the sections of a document by the type of their parts. The document decides the content and the order;
// nothing here knows a rule, a table or a figure by its name.

import { chipColor, ink } from "./colors.js";
import { columns, unevenness } from "./columns.js";
import { card, code, codeLine, h, prose, shorten } from "./dom.js";
import { columnDecimals, percent, placeName, shortKernel, shown } from "./format.js";
import { multiples } from "./multiples.js";
import { scrollBox } from "./scroll.js";
import { placeOf, table, visibleColumns } from "./table.js";

/** @typedef {import("./payloads").Bar} Bar */
/** @typedef {import("./payloads").Bars} Bars */
/** @typedef {import("./payloads").Chart} Chart */
/** @typedef {import("./payloads").Figure} Figure */
/** @typedef {import("./payloads").Figures} Figures */
/** @typedef {import("./payloads").FindingCard} FindingCard */
/** @typedef {import("./payloads").Part} Part */
/** @typedef {import("./payloads").Place} Place */
/** @typedef {import("./payloads").Section} Section */
/** @typedef {import("./payloads").Table} Table */
/** @typedef {import("./payloads").Text} Text */
/** @typedef {import("./payloads").Verdict} Verdict */
/** @typedef {import("./table.js").Row} Row */
/** @typedef {import("./dom.js").Child} Child */

/**
 * @typedef {object} Surface What the parts of a document need of the page that they are drawn on.
 * @property {<State extends object>(key: string) => State} local The view's own state, kept over refreshes.
 * @property {(changes: Record<string, string | undefined>) => void} go Changes the address.
 * @property {(place: Place, finding: FindingCard) => void} [goTo] Shows a finding's place.
 * @property {Record<string, (chart: Chart) => Child>} [charts] Draws a chart, by its name.
 * @property {Record<string, (row: Row) => void>} [open] Opens a row, by the id of its table.
 * @property {Record<string, import("./table.js").Selection>} [select] Which rows are selected, by the id of their table.
 */

const MOST_PLACES = 4;
const MOST_CHIPS = 4;
/** Findings are ranked by what they save: whoever has dealt with these looks again. */
const MOST_FINDINGS = 8;
/** A table that takes more letters has the width of the page. */
const LETTERS_OF_HALF_A_PAGE = 78;
/** Longer texts of a column are cut or break into lines. */
const LONGEST_COLUMN = 30;
/** How many lines of a column may stay empty above a wide card. */
const MOST_UNEVEN_LINES = 8;
/** Letters that the space between two columns takes. */
const BETWEEN_COLUMNS = 2;
/** A narrower part of a strip has no room for its label. */
const LABELLED_SHARE = 0.07;
/** The views of charts, for pages that do not draw a chart themselves. @type {Record<string, string>} */
const VIEW_OF = { batch_size: "memory", flame: "operators" };

/**
 * Draws a whole document: the answer on top, the page in two columns, the rest folded.
 * @param {Surface} surface
 * @param {Section[]} sections
 * @returns {Child[]}
 */
export function page(surface, sections) {
  const onPage = findingsFirst(sections.filter((section) => section.detail === "page" || isTitledFirst(section)));
  const answer = sections.filter((section) => section.detail === "first" && !isTitledFirst(section));
  const verbose = sections.filter((section) => section.detail === "verbose");
  const bars = onPage.flatMap((section) => section.body).find((part) => part.type === "bars");
  return [
    ...top(surface, answer, bars),
    ...cards(surface, onPage),
    ...verbose.map((section) => foldedSection(surface, section)),
  ];
}

/** Findings come before the sections that support them. @param {Section[]} sections */
function findingsFirst(sections) {
  const hasFindings = (/** @type {Section} */ { body }) => body.some((part) => part.type === "finding");
  return [...sections.filter(hasFindings), ...sections.filter((section) => !hasFindings(section))];
}

/** Whether a section of the first screen is drawn as a card, because it has a title and no verdict. @param {Section} section */
function isTitledFirst({ detail, title, body }) {
  return detail === "first" && Boolean(title) && !body.some((part) => part.type === "verdict" || part.type === "text");
}

/**
 * A section that shows only its heading until it is opened.
 * @param {Surface} surface
 * @param {Section} section
 */
export function foldedSection(surface, section) {
  const note = section.note && h("p.note", null, section.note);
  return h(
    "section.card.folded",
    { "aria-label": section.title },
    folded(section.title, note, ...parts(surface, section.body, section)),
  );
}

/**
 * A section as a card with its heading. Figures that all have a note are large and stand alone, without either.
 * @param {Surface} surface
 * @param {Section} section
 */
export function sectionCard(surface, section) {
  const figures = section.body.filter((part) => part.type === "figures");
  const isAllFigures = figures.length === section.body.length;
  if (isAllFigures && figures.every((part) => part.figures.every((figure) => figure.note))) {
    return h("div", { "aria-label": section.title }, figures.map(meters));
  }
  return card(section.title, section.note ?? null, ...parts(surface, section.body, section));
}

/**
 * The cards of sections: a wide table has the width of the page, other cards stand in two columns.
 * @param {Surface} surface
 * @param {Section[]} sections
 * @returns {Child[]}
 */
export function cards(surface, sections) {
  /** @type {Child[]} */
  const nodes = [];
  /** @type {import("./columns.js").Spread[]} */
  let narrow = [];
  /** @type {Child[]} */
  let wide = [];
  for (const section of sections) {
    const node = sectionCard(surface, section);
    if (isWide(section)) wide.push(node);
    else narrow.push({ height: estimatedHeight(section), node });
    // A wide card waits until the cards above it fill both columns.
    if (wide.length && unevenness(narrow.map(({ height }) => height)) <= MOST_UNEVEN_LINES) {
      nodes.push(columns(narrow), ...wide);
      [narrow, wide] = [[], []];
    }
  }
  return [...nodes, columns(narrow), ...wide];
}

/** @param {Section} section */
function isWide({ body }) {
  return body.some(
    (part) => part.type === "multiples" || (part.type === "table" && lettersOf(part) > LETTERS_OF_HALF_A_PAGE),
  );
}

/** About how many letters a row of a table takes. @param {Table} spec */
function lettersOf(spec) {
  const rows = spec.rows.slice(0, spec.first_rows ?? undefined);
  const widths = visibleColumns(spec).map(({ key, label, unit }) => {
    const longest = Math.max(label.length, ...rows.map((row) => shown(row[key], unit).length));
    return Math.min(longest, LONGEST_COLUMN) + BETWEEN_COLUMNS;
  });
  return widths.reduce((sum, width) => sum + width, 0);
}

/** About how many lines a section takes. @param {Section} section */
export function estimatedHeight(section) {
  const lines = section.body.map((part) => {
    if (part.type === "table") return 2 + Math.min(part.rows.length, part.first_rows ?? Infinity);
    if (part.type === "bars") return 1 + part.bars.length;
    if (part.type === "text") return 1.5 * part.lines.length;
    if (part.type === "finding") return 2;
    return part.type === "chart" ? 12 : 4;
  });
  const unfolded = section.body.some((part) => part.type === "finding") ? 10 : 0;
  return lines.reduce((sum, height) => sum + height, 3 + unfolded);
}

/**
 * The top of a page: warnings, why a run failed, and the verdict between large figures with the step as a strip.
 * @param {Surface} surface
 * @param {Section[]} sections
 * @param {Bars | undefined} bars
 * @returns {Child[]}
 */
function top(surface, sections, bars) {
  const body = sections.flatMap((section) => section.body);
  const verdicts = body.filter((part) => part.type === "verdict");
  const failed = verdicts.filter((verdict) => verdict.kind === "failed");
  const [verdict] = verdicts.filter((part) => part.kind !== "failed");
  const figures = body.filter((part) => part.type === "figures");
  const large = figures.filter((part) => part.large).flatMap((part) => part.figures);
  const texts = body.filter((part) => part.type === "text");
  const warnings = texts.filter((part) => part.style === "warning");
  const beside = texts.filter((part) => part.style !== "warning");
  return [
    ...warnings.map(text),
    ...failed.map((part) => hero(surface, part, [], undefined, verdict || large.length ? [] : beside)),
    verdict || large.length ? hero(surface, verdict, large, bars, beside) : null,
    ...figures.filter((part) => !part.large).map(figureLine),
  ];
}

/**
 * @param {Surface} surface
 * @param {Verdict | undefined} verdict
 * @param {Figure[]} figures The first stands before the verdict, the others behind it.
 * @param {Bars | undefined} bars
 * @param {Text[]} texts
 */
export function hero(surface, verdict, figures, bars, texts = []) {
  const [first, ...others] = figures;
  return h(
    verdict?.kind === "failed" ? "section.card.hero.failed" : "section.hero",
    { "aria-label": verdict?.label ?? "Verdict" },
    first && headline(first),
    (verdict || texts.length > 0) &&
      h("div.hero-cause", null, verdict && verdictBlock(surface, verdict), texts.map(text)),
    verdict?.gain && headlineOf("Saves", verdict.gain_short ?? verdict.gain, verdict.gain, true),
    others.map(headline),
    bars && figures.length > 0 && strip(bars),
  );
}

/** @param {Figure} figure */
function headline({ label, value, unit, note }) {
  return headlineOf(label, shown(value, unit), note, false);
}

/**
 * @param {string} label
 * @param {string} text
 * @param {string | null | undefined} note
 * @param {boolean} accent
 */
function headlineOf(label, text, note, accent) {
  return h(
    "div.hero-figure",
    null,
    h("span.label", null, label),
    h(accent ? "strong.big.accent" : "strong.big", null, text),
    note && note !== text && h("span.note", null, note),
  );
}

/**
 * @param {Surface} surface
 * @param {Verdict} verdict
 */
function verdictBlock(surface, { kind, label, title, sentence, finding, change, place }) {
  const several = change?.includes("\n");
  const clamp = finding ? "p.three-lines" : "p"; // the finding below has all of it
  return [
    h("span.label", null, label),
    h("strong.title", { "data-verdict": kind }, prose(shorten(title, 300))),
    (!change || kind === "failed") && h(clamp, { title: sentence }, prose(shorten(sentence, 600))),
    change && (several ? code(change) : codeLine(change)),
    place && h("p.note", null, placeLink(surface, place, null)),
  ];
}

/** A whole as one bar, in the order of its parts. @param {Bars} bars */
export function strip({ title, id, bars }) {
  const whole = bars.filter((bar) => !bar.level && (bar.frac ?? 0) > 0);
  if (!whole.length) return null;
  return h(
    "div.strip",
    {
      role: "img",
      "aria-label": `${title ?? id}: ${whole.map((bar) => `${bar.label} ${percent(bar.frac)}`).join(", ")}`,
    },
    whole.map((bar) => {
      const color = chipColor(bar.key) ?? "var(--accent)";
      return h(
        "div.strip-part",
        {
          title: `${bar.label}: ${percent(bar.frac)}`,
          style: { flex: `${bar.frac} 0 0`, background: color, color: ink(color) },
        },
        (bar.frac ?? 0) > LABELLED_SHARE && h("span", null, bar.label),
      );
    }),
  );
}

/**
 * @param {Surface} surface
 * @param {Part[]} body
 * @param {{id: string, title: string}} section
 * @returns {Child[]}
 */
export function parts(surface, body, section) {
  const cards = body.filter((part) => part.type === "finding");
  return body.map((part) => {
    if (part.type !== "finding") return drawn(surface, part, section);
    return part === cards[0] ? findings(surface, cards) : null;
  });
}

/**
 * @param {Surface} surface
 * @param {Exclude<Part, FindingCard>} part
 * @param {{id: string, title: string}} section
 * @returns {Child}
 */
function drawn(surface, part, section) {
  switch (part.type) {
    case "verdict":
      return h("div.verdict", null, verdictBlock(surface, part));
    case "figures":
      return figureLine(part);
    case "text":
      return text(part);
    case "table":
      return titledTable(surface, part, section);
    case "bars":
      return titled(part.title, part.note, scrollBox(part.title ?? section.title, barTable(part)));
    case "multiples":
      return titled(null, part.note, multiples(part));
    case "chart":
      return titled(null, part.note, surface.charts?.[part.name]?.(part) ?? chartLink(surface, part));
  }
}

/**
 * @param {string | null | undefined} title
 * @param {string | null | undefined} note
 * @param {Child} node
 */
function titled(title, note, node) {
  return h("div.part", null, title && h("h3", null, title), note && h("p.note", null, note), node);
}

/**
 * @param {Surface} surface
 * @param {Table} spec
 * @param {{id: string, title: string}} section
 */
function titledTable(surface, spec, section) {
  const own = surface.open?.[spec.id];
  const open = (/** @type {Row} */ row) => {
    const view = row.view ?? spec.opens;
    if (own) return () => own(row);
    const trace = typeof row.trace === "string" ? row.trace : undefined;
    return typeof view === "string" ? () => surface.go(trace === undefined ? { view } : { view, trace }) : null;
  };
  const state = surface.local(`${section.id}/${spec.id}`);
  const node = table(spec, { state, label: spec.title ?? section.title, open, select: surface.select?.[spec.id] });
  return titled(spec.title, spec.note, node);
}

/** @param {Text} part */
export function text({ lines, style = "plain" }) {
  if (style === "command" || style === "code") return code(lines.join("\n"));
  const spec = { plain: "p", strong: "p.strong", note: "p.muted", warning: "p.notice" }[style];
  const role = style === "warning" ? "note" : null;
  const paragraphs = lines.map((line) => h(spec, { role }, prose(shorten(line, 1000))));
  return paragraphs.length === 1 ? paragraphs[0] : h("div.plain-list", null, paragraphs);
}

/** @param {Figures} part */
export function figureLine({ figures, title }) {
  const isText = 2 * figures.filter(({ unit }) => unit === "text").length > figures.length;
  const list = h(
    isText ? "dl.facts-list" : "dl.facts-line",
    { "aria-label": title },
    figures
      .filter(({ value }) => value !== null)
      .map(({ label, value, unit, note }) =>
        h("div", { title: note }, h("dt", null, label), figureValue(shown(value, unit), unit)),
      ),
  );
  return title ? titled(title, null, list) : list;
}

/**
 * A path that is too long loses its beginning.
 * @param {string} text
 * @param {import("./payloads").Unit} unit
 */
function figureValue(text, unit) {
  return unit === "code" ? h("dd.tail", { title: text }, h("bdi", { dir: "ltr" }, text)) : h("dd", null, text);
}

/** Figures as cards side by side, each with what it is of. @param {Figures} part */
export function meters({ figures }) {
  return h(
    "dl.meters",
    null,
    figures.map(({ label, value, unit, note }) =>
      h("div.meter", null, h("dt", null, label), h("dd", null, shown(value, unit)), note && h("dd.note", null, note)),
    ),
  );
}

/** @param {Bars} spec */
function barTable({ id, unit, bars, value_label: valueLabel = "Mean", device_label: deviceLabel }) {
  const longest = Math.max(Number.MIN_VALUE, ...bars.flatMap((bar) => [bar.value ?? 0, bar.device_value ?? 0]));
  const fracs = bars.map((bar) => bar.frac);
  const shares = fracs.some((frac) => frac !== null) ? columnDecimals(fracs, "frac") : null;
  return h(
    "table.phases",
    { "data-table": id },
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        h("th", { scope: "col" }, h("span.sr", null, "Part")),
        h("th", { scope: "col" }, h("span.sr", null, "Bar")),
        shares !== null && h("th.number", { scope: "col" }, "Share"),
        h("th.number", { scope: "col" }, valueLabel),
        deviceLabel && h("th.number", { scope: "col" }, deviceLabel),
      ),
    ),
    h(
      "tbody",
      null,
      bars.map((bar) => barRow(bar, unit, longest, shares, Boolean(deviceLabel))),
    ),
  );
}

/**
 * @param {Bar} bar
 * @param {import("./payloads").Unit} unit
 * @param {number} longest
 * @param {number | null} shares The decimals of shares, null if there are none.
 * @param {boolean} onDevice
 */
function barRow(bar, unit, longest, shares, onDevice) {
  const color = chipColor(bar.key);
  const draw = (/** @type {string} */ spec, /** @type {number | null | undefined} */ value) =>
    value ? h(spec, { style: { width: `${(value / longest) * 100}%`, background: color ?? "var(--accent)" } }) : null;
  return h(
    bar.level ? "tr.part" : "tr",
    { title: bar.note ?? (bar.level ? bar.label : null) },
    h(
      "th",
      { scope: "row" },
      !bar.level && color && h("i.chip", { style: { background: color } }),
      shorten(bar.label, 60),
    ),
    h(
      "td.bar-cell",
      null,
      draw(bar.level ? "i.bar.thin" : "i.bar", bar.value),
      draw("i.bar.on-device", bar.device_value),
    ),
    shares !== null && h("td.number", null, shown(bar.frac, "frac", shares)),
    h("td.number.muted", null, shown(bar.value, unit)),
    onDevice && h("td.number.muted", null, shown(bar.device_value, unit)),
  );
}

/**
 * @param {Surface} surface
 * @param {Chart} chart
 */
function chartLink(surface, chart) {
  return h("button.link", { onclick: () => surface.go({ view: VIEW_OF[chart.name] ?? chart.name }) }, chart.title);
}

/**
 * @param {Surface} surface
 * @param {FindingCard[]} cards
 */
function findings(surface, cards) {
  const items = cards.map((finding, index) => h("li", null, findingCard(surface, finding, index === 0)));
  const rest = items.slice(MOST_FINDINGS);
  return h(
    "div",
    null,
    h("ol.findings", null, items.slice(0, MOST_FINDINGS)),
    rest.length > 0 && folded(`${rest.length} more`, h("ol.findings", { start: MOST_FINDINGS + 1 }, rest)),
  );
}

/**
 * A finding in one line, with its details below while it is open.
 * @param {Surface} surface
 * @param {FindingCard} finding
 * @param {boolean} open
 */
export function findingCard(surface, finding, open) {
  const { id, severity, title, advice, change, saving, confidence, trial } = finding;
  return h(
    "details.finding",
    { "data-severity": severity, "data-finding": id, open },
    h(
      "summary",
      null,
      h("span.severity", null, severity),
      h("h3", null, title),
      h("span.gain-text", null, saving?.short ?? ""),
    ),
    h("p.advice", null, prose(advice)),
    change && code(change),
    h("p.gain-text", null, prose(saving ? saving.sentence : (finding.no_saving ?? ""))),
    saving?.basis && h("p.note", null, saving.basis),
    trial?.command && code(trial.command),
    trial && h("p.note", null, trial.note),
    places(surface, finding),
    h("dl.evidence", { "aria-label": "Evidence" }, chips(finding.evidence), chip("confidence", percent(confidence))),
    h("p.note", null, h("code", null, id)),
  );
}

/**
 * The first figures; a label that several figures share, such as a time and its share, is written once.
 * @param {Figure[]} evidence
 */
function chips(evidence) {
  /** @type {Map<string, string[]>} */
  const byLabel = new Map();
  for (const { label, value, unit } of evidence) {
    byLabel.set(label, [...(byLabel.get(label) ?? []), shown(value, unit)]);
  }
  return [...byLabel].slice(0, MOST_CHIPS).map(([label, [first, ...others]]) => {
    const value = others.length ? `${first} (${others.join(", ")})` : first;
    return chip(label, value);
  });
}

/**
 * @param {string} label
 * @param {string} value
 */
function chip(label, value) {
  return h("div", null, h("dt", null, label), h("dd", null, value));
}

/**
 * @param {Surface} surface
 * @param {FindingCard} finding
 */
function places(surface, finding) {
  /** @type {Place[]} */
  const all = finding.places.length ? finding.places : [{ type: "place", view: finding.view }];
  return h(
    "ul.where",
    { "aria-label": "Where" },
    all.slice(0, MOST_PLACES).map((place) => h("li", null, placeLink(surface, place, finding))),
    all.length > MOST_PLACES && h("li.muted", null, `+ ${all.length - MOST_PLACES}`),
  );
}

/**
 * @param {Surface} surface
 * @param {Place} place
 * @param {FindingCard | null} finding
 */
function placeLink(surface, place, finding) {
  const label = placeLabel(place);
  const show =
    finding && surface.goTo
      ? () => surface.goTo?.(place, finding)
      : place.view && (() => surface.go({ view: place.view ?? "" }));
  return show ? h("button.link", { onclick: show }, label) : h("span", null, label);
}

/** @param {Place} place @returns {Child[]} */
function placeLabel(place) {
  if (place.file) {
    const source = place.source && h("code.source", null, shorten(place.source.trim(), 200));
    return [h("code", { title: place.file }, shorten(placeName(place), 220)), source];
  }
  if (place.kernel) return [h("code", { title: shorten(place.kernel, 1000) }, shortKernel(place.kernel))];
  const name = placeName(place);
  return name ? [place.name ? h("code", null, shorten(name, 200)) : shorten(name, 200)] : ["Show it"];
}

/**
 * @param {string} title
 * @param {...Child} children
 */
export function folded(title, ...children) {
  return h("details.abstained", null, h("summary", null, title), ...children);
}

/**
 * The row of a table on this page whose place is a line of code.
 * @param {Place} place
 * @returns {Element | undefined}
 */
export function rowOf(place) {
  const wanted = placeOf({ place });
  const rows = wanted ? [...document.querySelectorAll("tr[data-place]")] : [];
  return rows.find((row) => row.getAttribute("data-place") === wanted);
}
