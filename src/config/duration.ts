// Durations as people write them: a whole number and one unit, such as 500ms, 30s, 5m, 6h or 7d.

const unitMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** Form of a duration. No fractions (90s, not 1.5m), no mixture (90m, not 1h30m), no bare numbers: one unambiguous form. */
export const durationPattern = /^(\d{1,12})(ms|s|m|h|d)$/

/** Milliseconds of a duration such as `30s`; undefined for any other text. */
export function parseDuration(text: string): number | undefined {
  const [, digits, unit] = durationPattern.exec(text) ?? []
  return digits === undefined ? undefined : Number(digits) * unitMs[unit as keyof typeof unitMs]
}

/** The shortest exact form of whole milliseconds: 90000 becomes `90s`, 3600000 `1h`, 0 `0s`. */
export function formatDuration(ms: number): string {
  if (ms === 0) return '0s'
  const unit = (['d', 'h', 'm', 's'] as const).find((candidate) => ms % unitMs[candidate] === 0) ?? 'ms'
  return `${ms / unitMs[unit]}${unit}`
}
