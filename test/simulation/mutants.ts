// Daemons that are broken on purpose, each by one change of the source. The simulation must catch every one of them.
import { cp, mkdtemp, readFile, symlink, writeFile } from 'node:fs/promises'
import { execFile } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Invariant } from './trace.ts'

export interface Mutant {
  name: string
  /** Path below src/. */
  file: string
  /** Must stand there exactly once. */
  find: string
  replace: string
  /** What it must be caught by. */
  invariant: Invariant
}

export const mutants: readonly Mutant[] = [
  {
    name: 'retries while it pages',
    file: 'reconcile/sweep.ts',
    find: 'const release = await options.fence({ from, to: to + 1 }, signal)',
    replace: 'const release = await Promise.resolve(() => undefined)',
    invariant: 'premature',
  },
  {
    name: 'takes each sight of a record for another record',
    file: 'reconcile/backlog.ts',
    find: 'const known = byId.get(keyOf(record.id))',
    replace: 'const known = undefined as Entry | undefined',
    invariant: 'premature',
  },
  {
    name: 'ignores the backoff',
    file: 'reconcile/decide.ts',
    find: "if (situation.now < due) return { decision: 'backing-off', dueAt: due }",
    replace: '',
    invariant: 'premature',
  },
  {
    name: 'counts accepted as recovered',
    file: 'reconcile/backlog.ts',
    find: 'awaited.add(entry)\n',
    replace: `awaited.add(entry)
    const answeredAt = { askedAt: at.monotonic, monotonic: at.monotonic, seenAt: at.answeredAt }
    if (answer.result === 'accepted') settle(entry, 'recovered', undefined, answeredAt)
`,
    invariant: 'untrue',
  },
  {
    name: 'counts absent as recovered',
    file: 'reconcile/backlog.ts',
    find: 'if (awaiting !== undefined || listed.has(key) ||',
    replace: `const isGone = awaiting?.inFlight === false && !listed.has(key) && contains(listing.span, localSecond)
      const { askedAt } = listing
      if (isGone) settle(entry, 'recovered', undefined, { askedAt, monotonic: askedAt, seenAt: askedAt })
      if (awaiting !== undefined || listed.has(key) ||`,
    invariant: 'untrue',
  },
  {
    name: 'retries what it awaits',
    file: 'reconcile/decide.ts',
    find: "if (known.awaiting !== undefined) return { decision: 'awaiting', dueAt: due }",
    replace: '',
    invariant: 'premature',
  },
  {
    name: 'forgets retries whose answer was lost',
    file: 'reconcile/backlog.ts',
    find: "if (answer.result !== 'accepted' && answer.lost !== true) {",
    replace: "if (answer.result !== 'accepted') {",
    invariant: 'premature',
  },
  {
    name: 'fetches a token for each that asks',
    file: 'platform/token.ts',
    find: 'return request ?? (pace.openAt()',
    replace: 'return (pace.openAt()',
    invariant: 'limits',
  },
  {
    name: 'never shrinks the allowance',
    file: 'reconcile/circuit.ts',
    find: '    allowance = 1\n',
    replace: '',
    invariant: 'dead-receiver',
  },
  {
    name: 'dates a listing by its end',
    file: 'reconcile/listing.ts',
    find: '    askedAt,\n',
    replace: '    askedAt: options.monotonic(),\n',
    invariant: 'premature',
  },
  {
    name: 'keeps more than there is room for',
    file: 'reconcile/backlog.ts',
    find: 'if (byId.size >= maxRecords) return ranked.slice(index).map((late) => late.entry)',
    replace: '',
    invariant: 'bounds',
  },
  {
    name: 'calls without a rate',
    file: 'platform/rate.ts',
    find: '    all.level -= 1\n',
    replace: '',
    invariant: 'limits',
  },
  {
    name: "goes by the host's wall clock",
    file: 'engine.ts',
    find: 'const clock = createSteadyClock(options.clock)',
    replace: 'const clock = { ...createSteadyClock(options.clock), now: () => options.clock.now() }',
    invariant: 'premature',
  },
  {
    name: 'looks at nothing but the newest hour',
    file: 'reconcile/passes.ts',
    find: 'await list({ from: whole.from, to: newest.from }, count, pass)',
    replace: '',
    invariant: 'waits',
  },
  {
    name: 'never gives up on an outcome',
    file: 'reconcile/backlog.ts',
    find: "if (isGivenUp(awaiting, evidence, look.askedAt, policy.outcome)) settle(entry, 'unknown', undefined, look)",
    replace: '',
    invariant: 'waits',
  },
]

const root = join(import.meta.dirname, '../..')

/** Copies what the simulation needs into a folder of its own, which the caller removes. */
export async function copySource(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'simulation-'))
  for (const part of ['package.json', 'src', 'test/simulation']) {
    await cp(join(root, part), join(folder, part), { recursive: true })
  }
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  return folder
}

/** Breaks the copy. Returns what mends it. @throws Error when the text to be replaced does not stand there exactly once */
export async function mutate(folder: string, { file, find, name, replace }: Mutant): Promise<() => Promise<void>> {
  const path = join(folder, 'src', file)
  const text = await readFile(path, 'utf8')
  const found = text.split(find).length - 1
  if (found !== 1) {
    throw new Error(
      `the mutant "${name}" no longer applies: src/${file} holds its text ${found} times, not once; adapt it in mutants.ts`,
    )
  }
  await writeFile(
    path,
    text.replace(find, () => replace),
  )
  return () => writeFile(path, text)
}

export interface Run {
  exitCode: number
  output: string
}

/** Runs the simulation of a copy in a process of its own. */
export function runCopy(folder: string, args: readonly string[]): Promise<Run> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [join(folder, 'test/simulation/main.ts'), ...args],
      { maxBuffer: 2 ** 26 },
      (error, stdout, stderr) => {
        resolve({
          exitCode: error === null ? 0 : typeof error.code === 'number' ? error.code : 99,
          output: stdout + stderr,
        })
      },
    )
  })
}
