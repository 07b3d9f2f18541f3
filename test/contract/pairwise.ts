// Covers every pair of values of any two axes with few cells: the greedy method, without chance, so that a failing cell keeps its number.

/** Axes by name, each with the names of its values. */
export type Axes = Readonly<Record<string, readonly string[]>>

/** One value of each axis. */
export type Cell<A extends Axes> = { readonly [Axis in keyof A]: A[Axis][number] }

type Part = Readonly<Record<string, string>>

/** Cells that together hold every pair. The same axes give the same cells. */
export function pairwise<const A extends Axes>(axes: A): Cell<A>[] {
  const names = Object.keys(axes)
  const couples = names.flatMap((name, index) => names.slice(index + 1).map((other) => [name, other] as const))

  /** Each pair that a part of a cell holds, as text. */
  function pairsOf(part: Part): string[] {
    const given = couples.filter(([name, other]) => name in part && other in part)
    return given.map(([name, other]) => `${name}=${part[name]}&${other}=${part[other]}`)
  }

  const pairs = couples.flatMap(([name, other]) => product({ [name]: axes[name] ?? [], [other]: axes[other] ?? [] }))
  const open = new Map(pairs.map((pair) => [pairsOf(pair).join(), pair]))
  const gain = (part: Part): number => pairsOf(part).filter((pair) => open.has(pair)).length

  /** Gives every other axis the value that covers most. */
  function fill(start: Part): Part {
    return names.reduce((part, name) => {
      if (name in part) return part
      const ways = (axes[name] ?? []).map((value): Part => ({ ...part, [name]: value }))
      return ways.reduce((best, way) => (gain(way) > gain(best) ? way : best))
    }, start)
  }

  const cells: Cell<A>[] = []
  for (let [start] = open.values(); start !== undefined; [start] = open.values()) {
    const cell = fill(start)
    for (const pair of pairsOf(cell)) open.delete(pair)
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
