// Scripts for parts that answer to what happens: commands in, answers out. One driver for all of them, and one world for circuits, platform breaker and outcomes.
import { expect } from 'vitest'
import { hourMs, secondMs } from './backlog.ts'
import { reconcile, type Reconcile, type ReconcileOptions } from './reconcile.ts'
import { givenOf, listErrors, msOf, named, outcomeCommands, partCommands, type Commands } from './script-parts.ts'

/** The platform's answers to list calls, and how many came since the last time that a script looked. */
function listCommands(options: ReconcileOptions): { world: Reconcile; commands: Commands } {
  let [how, takesMs, ofAll] = ['works', 0, false]
  let lists = 0
  const world = reconcile({
    ...options,
    async beforeList({ from }) {
      lists += 1
      const answer = how
      if (takesMs > 0) await world.clock.sleep(takesMs)
      if (answer !== 'works' && !(ofAll && from !== undefined)) throw named(listErrors, answer)
    },
  })

  function counted(): number {
    const count = lists
    lists = 0
    return count
  }

  return {
    world,
    commands: {
      wait: (time = '') => world.clock.advance(msOf(time)),
      /** How lists are answered, after a time: `works`, or an error, with `all` only for a list of all records. */
      list: (answer = '', takes = '0ms', only?: string) => {
        ;[how, takesMs, ofAll] = [answer, msOf(takes), only === 'all']
      },
      lists: () => counted(),
      pauses: async (number = '') => {
        const pauses: number[] = []
        for (let seconds = 1; pauses.length < Number(number); seconds += 1) {
          await world.clock.advance(secondMs)
          if (counted() === 0) continue
          pauses.push(seconds)
          seconds = 0
        }
        return pauses.join(' ')
      },
    },
  }
}

/** The retry loop, whose turns begin the pings, and a sweep. */
function loopCommands(world: Reconcile): Commands {
  let retrying = Promise.resolve()
  return {
    start: async () => {
      retrying = world.start()
      retrying.catch(() => undefined)
      await world.clock.settle()
    },
    ends: () =>
      world.clock.run(retrying, hourMs).then(
        () => 'in order',
        (error: unknown) => `with ${String(error)}`,
      ),
    sweep: async () => {
      const { listed, result } = await world.sweep()
      return `${result} ${listed}`
    },
    gates: () => {
      const sinceOf = (since?: number): string =>
        since === undefined ? '' : ` since ${(world.clock.now() - since) / 1000}s`
      const shut = world.gates.shut().map(({ call, gate, since }) => `${gate}${sinceOf(since)}${call ? ` by ${call.operation}` : ''}`) // prettier-ignore
      return shut.join(', ') || 'none'
    },
  }
}

/** `at most 9`, or the answer itself. */
function compare(answer: unknown, expected: string | undefined, step: string): void {
  const bound = /^at most (\d+)$/.exec(expected ?? '')?.[1]
  if (bound === undefined) expect(typeof answer === 'number' ? String(answer) : answer, step).toBe(expected)
  else expect(Number(answer), step).toBeLessThanOrEqual(Number(bound))
}

/** Runs the steps of a script, one a line or parted by semicolons: `command words`, and after `->` what it answers. */
export async function runScript(script: string, commands: Commands): Promise<void> {
  for (const step of script.split(/[;\n]/).map((line) => line.trim())) {
    if (step === '') continue
    const [said = '', expected] = step.split(' -> ')
    const [name = '', ...words] = said.split(/ +/)
    compare(await named(commands, name)(...words), expected, step)
  }
}

/** Plays a script on the parts. It may begin with numbers of the circuits. */
export async function play(script: string, options: ReconcileOptions = {}): Promise<void> {
  const [circuit, steps] = givenOf(script, ['failureRatio', 'initialLimit', 'maxLimit'])
  const { commands, world } = listCommands({ circuit, ...options })
  await using playing = world
  await runScript(steps, {
    ...commands,
    ...loopCommands(playing),
    ...partCommands(playing),
    ...outcomeCommands(playing),
  })
}
