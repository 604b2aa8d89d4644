// Two runs side by side: what changed, by how much, and how sure that is.

import { card, h, shorten } from "../dom.js";
import { duration, evidence, kernelName, number, percent, size } from "../format.js";
import { phaseColor, phaseLabel } from "../phases.js";
import { picker } from "../picker.js";
import { table } from "../table.js";
import { askAgain } from "./cycles.js";

/** @type {import("./registry.js").View} */
export const compare = {
  id: "compare",
  label: "Compare",
  about: "This run against another one: steps by the host's clock, kernels by the device's.",
  async render(context) {
    return runs(context);
  },
};

/** @param {import("../app.js").Context} context */
async function runs(context) {
  const others = context.runs.filter((run) => run.name !== context.run.name && run.steps);
  if (!context.source.live) {
    return h(
      "p.empty",
      { role: "note" },
      "This report holds one run. `lightning-gpuprof compare BASE NEW` and TensorBoard's PROFILE tab compare two.",
    );
  }
  if (!others.length)
    return h(
      "p.empty",
      { role: "note" },
      "There is no other run with steps here to compare with. Train a second one, or point TensorBoard at a folder of several.",
    );
  const base = others.find((run) => run.name === context.state.base) ?? before(context.run, others);
  const against = picker({
    label: "Compared with",
    options: others.map((one) => [one.name, sameModel(one, context.run) ? one.name : `${one.name} (another model)`]),
    value: base.name,
    pick: (name) => context.go({ base: name }),
  });
  try {
    const found = await context.get("compare", { base: base.name });
    if (!found.state) return h("div", null, against, shown(context, found, base.name));
    const node = h("div", null, against, h("p.empty", { role: "status" }, waiting(found)));
    askAgain(context, node, found);
    return node;
  } catch (error) {
    return h(
      "div",
      null,
      against,
      h("p.empty", { role: "alert" }, error instanceof Error ? error.message : String(error)),
    );
  }
}

/** @param {any} found */
function waiting(found) {
  if (found.state === "failed") return `The runs could not be compared: ${found.error}`;
  return "The runs are being compared, in a process of its own. It will show here.";
}

/**
 * The run that came before this one, of those of the same model and stage where there are any, and of these of
 * those in the same folder.
 * @param {any} run
 * @param {any[]} others The newest first.
 */
function before(run, others) {
  const folder = (/** @type {any} */ one) => one.name.slice(0, one.name.lastIndexOf("/") + 1);
  const alike = others.filter((one) => sameModel(one, run) && one.stage === run.stage);
  const among = alike.length ? alike : others;
  const siblings = among.filter((one) => folder(one) === folder(run));
  const earlier = (/** @type {any[]} */ some) => some.find((one) => one.started_unix_ns < run.started_unix_ns);
  return earlier(siblings) ?? earlier(among) ?? among[0];
}

/**
 * A rank counts its own parameters, of a sharded model a part.
 * @param {any} a
 * @param {any} b
 */
function sameModel(a, b) {
  const countedAlike = a.world_size === b.world_size && a.strategy === b.strategy;
  return a.model?.class === b.model?.class && (!countedAlike || a.model?.parameters === b.model?.parameters);
}

/**
 * @param {import("../app.js").Context} context
 * @param {any} found The comparison.
 * @param {string} base
 */
function shown(context, found, base) {
  const verdicts = /** @type {Record<string, string>} */ ({ faster: "good", slower: "critical" });
  return h(
    "div",
    null,
    h(
      "section.hero",
      { "aria-label": "Verdict" },
      h(
        "div.hero-cause",
        null,
        h("span.label", null, `${shorten(context.run.name, 60)} against ${shorten(base, 60)}`),
        h("strong.title", { "data-verdict": found.same_model && verdicts[found.verdict] }, found.sentence),
        unlike(found.differs),
        h(
          "p",
          null,
          `${number(found.new.steps)} against ${number(found.base.steps)} steady steps; the interval covers how steps spread within these two runs, not what another day or machine would change.`,
        ),
      ),
    ),
    beforeAfter(found.before_after ?? []),
    h(
      "div.columns",
      null,
      h(
        "div.column",
        null,
        figures(
          "Phases",
          `Mean per ${found.per_sample ? "sample" : "step"}${ahead(found).length ? ", on the host's clock" : ""}.`,
          found.phases.map(named),
        ),
        figures("Operators", `The largest changes of own time${profiled(found)}.`, found.operators),
        figures("Kernels", `The largest changes of device time${profiled(found)}.`, found.kernels),
      ),
      h(
        "div.column",
        null,
        figures(
          "Steps",
          [...(found.per_sample ? ["Per sample: the batch sizes differ."] : []), ...ahead(found)].join(" ") || null,
          found.steps,
        ),
        findings(found),
        figures("Memory", null, found.memory),
        values(found.values),
        differs(found.differs),
      ),
    ),
  );
}

/** Says which side's steps are by the device's clock. @param {any} found */
function ahead(found) {
  const sides = ["base", "new"].filter((side) => found[side].clock === "device");
  return sides.length ? [`By the device's clock (${sides.join(" and ")}): the host was ahead of it.`] : [];
}

/** @param {any} found */
function profiled(found) {
  return found.traced_steps ? `, of ${found.traced_steps.join(" and ")} profiled steps` : "";
}

/** Warns where more than the settings differ. @param {any[]} differs */
function unlike(differs) {
  const texts = [];
  if (differs.some((one) => one.kind === "model"))
    texts.push("Unless your change is what made the models differ, their times say nothing of it.");
  const names = differs.filter((one) => ["machine", "versions"].includes(one.kind)).map((one) => one.name);
  if (names.length)
    texts.push(
      `These runs also differ in ${shorten(names.join(", "), 160)}: that may explain the difference as well as any change you made.`,
    );
  return texts.map((text) => h("p.notice", { role: "note" }, text));
}

/** @param {any} row */
const named = (row) => ({ ...row, phase: row.name, name: phaseLabel(row.name) });

/**
 * @param {string} title
 * @param {string | null} note
 * @param {any[]} rows
 */
function figures(title, note, rows) {
  if (!rows.length) return null;
  // Rates have another unit than the times beside them.
  const scaled = rows.filter((row) => !row.name.endsWith("_per_s"));
  // Both runs were traced: what one of them did not launch took no time in it.
  const kernels = title.startsWith("Kernels");
  const change = (/** @type {any} */ row) => row.diff ?? (kernels ? (row.new ?? 0) - (row.base ?? 0) : 0);
  const largest = Math.max(...scaled.map((row) => Math.abs(change(row))), 1e-9);
  return card(
    title,
    note,
    h(
      "div.scroll",
      { tabindex: 0, role: "region", "aria-label": title },
      h(
        "table.figures",
        null,
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            ["", "Base", "This", "Difference", ""].map((text, i) =>
              h(i && i < 4 ? "th.number" : "th", { scope: "col" }, text),
            ),
          ),
        ),
        h(
          "tbody",
          null,
          rows.map((row) => {
            const show = format(row);
            const share = row.base && row.diff !== null ? ` (${relative(row.diff / row.base)})` : "";
            const width = `${((Math.abs(change(row)) / largest) * 100).toFixed(1)}%`;
            const unknown = !kernels ? "–" : row.base === null ? "added" : "removed";
            return h(
              "tr",
              null,
              h(
                row.phase || title === "Steps" || title === "Memory" ? "td.plain" : "td.name",
                { title: shorten(row.name, 1000) },
                row.phase && h("i.chip", { style: { background: phaseColor(row.phase) } }),
                shorten(kernels ? kernelName(row.name) : label(row.name), kernels ? 72 : 120),
              ),
              h("td.number", null, row.base === null ? "–" : show(row.base)),
              h("td.number", null, row.new === null ? "–" : show(row.new)),
              h(
                "td.number",
                null,
                row.diff === null
                  ? unknown
                  : `${row.diff > 0 ? "+" : ""}${show(row.diff)}${share}`.replaceAll("-", "−"),
              ),
              h(
                "td.diff-cell",
                { "aria-hidden": true },
                change(row) && scaled.includes(row)
                  ? h(change(row) > 0 ? "i.bar.more" : "i.bar.less", { style: { width } })
                  : null,
              ),
            );
          }),
        ),
      ),
    ),
  );
}

/** @param {number} change As a share of the base. */
function relative(change) {
  return change > 10 ? `×${number(Number((change + 1).toPrecision(2)))}` : `${change > 0 ? "+" : ""}${percent(change)}`;
}

/** @param {any} row @returns {(value: number) => string} */
function format(row) {
  if (row.name.endsWith("_per_s")) return (value) => `${number(Number(value.toPrecision(4)))}/s`;
  if (row.name.endsWith("_bytes")) return size;
  return duration;
}

/** @param {string} name */
function label(name) {
  /** @type {Record<string, string>} */
  const known = {
    mean_ns: "mean step",
    p50_ns: "median step",
    p95_ns: "95th percentile",
    p99_ns: "99th percentile",
    max_ns: "slowest",
    whole_fit_ns: "whole fit, per step",
    wall_ns: "wall time",
    samples_per_s: "samples",
  };
  return known[name] ?? (name.endsWith("_bytes") ? name.replace(/_bytes$/, "").replaceAll("_", " ") : name);
}

/** @param {any} found */
function findings(found) {
  const list = (/** @type {any[]} */ rows) =>
    rows.map((row) => h("li", null, h("code", null, row.id), ` ${shorten(row.title, 200)}`));
  if (!found.findings_gone.length && !found.findings_new.length) return null;
  return card(
    "Findings",
    null,
    found.findings_gone.length > 0 && h("h3", null, "Gone"),
    h("ul.plain-list", null, list(found.findings_gone)),
    found.findings_new.length > 0 && h("h3", null, "New"),
    h("ul.plain-list", null, list(found.findings_new)),
  );
}

/** @param {any[]} rows What to look at before and after a change. */
function beforeAfter(rows) {
  if (!rows.length) return null;
  const shown = (/** @type {number} */ value, /** @type {any} */ row) =>
    row.wanted === "same" ? number(Number(value.toPrecision(6))) : evidence(row.name, value)[1];
  return card(
    "Before and after",
    "Figures that both runs have, and which way each should go.",
    table({
      label: "Before and after",
      columns: [
        { key: "label", label: "Figure", text: true, plain: true },
        { key: "base", label: "Base", format: shown },
        { key: "new", label: "This", format: shown },
        {
          key: "diff",
          label: "Change",
          format: (diff, row) => (row.base ? relative(diff / row.base).replaceAll("-", "−") : "–"),
        },
        { key: "wanted", label: "Wanted", text: true, plain: true },
        {
          key: "as_wanted",
          label: "As wanted",
          text: true,
          plain: true,
          format: (as) => (as === null ? "unchanged" : as ? "yes" : "no"),
        },
      ],
      rows,
      state: {},
    }),
  );
}

/** @param {any[]} rows */
function values(rows) {
  if (!rows.length) return null;
  return card(
    "Do they compute the same?",
    "Recorded losses and metrics of the steps that both runs have.",
    table({
      label: "Recorded values",
      columns: [
        { key: "name", label: "Value", text: true },
        {
          key: "same",
          label: "Same",
          text: true,
          plain: true,
          format: (same) => (same === null ? "not known" : same ? "yes" : "no"),
        },
        { key: "max_diff", label: "Largest difference", format: percent },
        { key: "first_step", label: "From step", format: number },
        { key: "last_base", label: "Last, base", format: number },
        { key: "last_new", label: "Last, this", format: number },
      ],
      rows,
      state: {},
    }),
  );
}

/** @param {any[]} rows */
function differs(rows) {
  if (!rows.length) return null;
  return card(
    "What else differs",
    "Settings, machine and versions that are not the same in both.",
    table({
      label: "What else differs",
      columns: [
        { key: "name", label: "What", text: true },
        { key: "base", label: "Base", text: true, format: (value) => shorten(JSON.stringify(value ?? null), 80) },
        { key: "new", label: "This", text: true, format: (value) => shorten(JSON.stringify(value ?? null), 80) },
      ],
      rows,
      state: {},
    }),
  );
}
