// Covers every pair of values of any two axes with few cells: the greedy method, without chance, so that a failing cell keeps its number.

/** Axes by name, each with the names of its values. */
export type Axes = Readonly<Record<string, readonly string[]>>

/** One value of each axis. */
export type Cell<A extends Axes> = { readonly [Axis in keyof A]: A[Axis][number] }

interface Pair {
  axis: string
  value: string
  otherAxis: string
  otherValue: string
}

const keyOf = ({ axis, value, otherAxis, otherValue }: Pair): string => `${axis}=${value}&${otherAxis}=${otherValue}`

function allPairs(axes: Axes): Map<string, Pair> {
  const names = Object.keys(axes)
  const pairs = names.flatMap((axis, index) =>
    names
      .slice(index + 1)
      .flatMap((otherAxis) =>
        (axes[axis] ?? []).flatMap((value) =>
          (axes[otherAxis] ?? []).map((otherValue): Pair => ({ axis, value, otherAxis, otherValue })),
        ),
      ),
  )
  return new Map(pairs.map((pair) => [keyOf(pair), pair]))
}

/** The pairs that a cell holds. */
function pairsOf(cell: Readonly<Record<string, string>>, names: readonly string[]): string[] {
  const given = names.filter((name) => name in cell)
  return given.flatMap((axis, index) =>
    given
      .slice(index + 1)
      .map((otherAxis) => keyOf({ axis, value: cell[axis] ?? '', otherAxis, otherValue: cell[otherAxis] ?? '' })),
  )
}

/** Starts from a pair that is not covered yet and gives every other axis the value that covers most. */
function fill(start: Pair, axes: Axes, open: ReadonlyMap<string, Pair>): Record<string, string> {
  const names = Object.keys(axes)
  const cell: Record<string, string> = { [start.axis]: start.value, [start.otherAxis]: start.otherValue }
  for (const axis of names) {
    if (axis in cell) continue
    const gain = (value: string): number => {
      const extended = { ...cell, [axis]: value }
      return pairsOf(extended, names).filter((pair) => open.has(pair)).length
    }
    const ranked = (axes[axis] ?? []).map((value) => ({ value, gain: gain(value) }))
    const best = ranked.reduce((most, one) => (one.gain > most.gain ? one : most))
    cell[axis] = best.value
  }
  return cell
}

/** Cells that together hold every pair. The same axes give the same cells. */
export function pairwise<const A extends Axes>(axes: A): Cell<A>[] {
  const open = allPairs(axes)
  const cells: Cell<A>[] = []
  for (let [start] = open.values(); start !== undefined; [start] = open.values()) {
    const cell = fill(start, axes, open)
    for (const pair of pairsOf(cell, Object.keys(axes))) open.delete(pair)
    cells.push(cell as Cell<A>)
  }
  return cells
}

/** Every combination. */
export function product<const A extends Axes>(axes: A): Cell<A>[] {
  return Object.entries(axes).reduce<Record<string, string>[]>(
    (cells, [axis, values]) => cells.flatMap((cell) => values.map((value) => ({ ...cell, [axis]: value }))),
    [{}],
  ) as Cell<A>[]
}
