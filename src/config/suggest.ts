// "Did you mean": finds the known name closest to a mistyped one.

/** Number of single-character changes between two texts (Levenshtein). */
function distance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (const [row, character] of Array.from(a).entries()) {
    const current = [row + 1]
    for (let column = 1; column <= b.length; column += 1) {
      const changed = (previous[column - 1] ?? 0) + (character === b[column - 1] ? 0 : 1)
      current.push(Math.min(changed, (previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1))
    }
    previous = current
  }
  return previous[b.length] ?? 0
}

/** Ignores case, separators and plural. */
function bare(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, '')
}

/** The last word of a key path. */
function leafOf(name: string): string {
  return name.slice(name.lastIndexOf('.') + 1)
}

/**
 * The candidate that was probably meant; undefined if none is close.
 * A key in the wrong section (same last word, only one candidate) counts as close.
 */
export function nearest(name: string, candidates: readonly string[]): string | undefined {
  const wanted = bare(name.slice(0, 100))
  const ranked = candidates
    .map((candidate) => ({ candidate, changes: distance(wanted, bare(candidate)) }))
    .sort((a, b) => a.changes - b.changes)
  const [best] = ranked
  if (best !== undefined && best.changes <= Math.max(1, Math.floor(wanted.length / 5))) return best.candidate
  const sameLeaf = candidates.filter((candidate) => bare(leafOf(candidate)) === bare(leafOf(name)))
  return sameLeaf.length === 1 ? sameLeaf[0] : undefined
}
