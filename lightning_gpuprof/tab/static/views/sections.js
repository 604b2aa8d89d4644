// Which sections of a run's document the views show; the Overview shows those that no other view shows.

/** @typedef {import("../payloads").Section} Section */

/** Sections about single steps, for the Steps view. */
const OF_STEPS = ["slow_downs", "captures", "before_during", "step_time", "slowest", "recorded_steps", "totals", "outside"];
/** Sections that a view of its own shows in full. */
const IN_OTHER_VIEWS = [/^operators/, /^kernels/, /^ranks$/, /^memory$/, /^charts$/];
/** Verbose sections that the Overview shows in full: there is room beside the findings. */
const UNFOLDED = ["plan", "checklist"];
/** The line of figures below the verdict. */
const BELOW_VERDICT = "facts";

/** @param {Section[]} sections @returns {Section[]} */
export function stepSections(sections) {
  const chosen = OF_STEPS.flatMap((id) => sections.filter((section) => section.id === id));
  // The view has a chart of its own.
  return chosen.map((section) => ({ ...section, body: section.body.filter((part) => part.type !== "chart") }));
}

/** @param {Section[]} sections @returns {Section[]} */
export function overviewSections(sections) {
  return sections
    .filter(({ id, detail }) => detail === "page" || !OF_STEPS.includes(id))
    .filter(({ id }) => !IN_OTHER_VIEWS.some((pattern) => pattern.test(id)))
    .map((section) => {
      if (section.id === BELOW_VERDICT) return { ...section, title: "", detail: "first" };
      return UNFOLDED.includes(section.id) ? { ...section, detail: "page" } : section;
    });
}
