// `npm run bench:takeover`: three daemons share a Lease with its default durations: how long until another one leads.
import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { setup } from '../support/build.ts'
import { startPlatform } from '../support/platform.ts'
import { startLeaseApi, type LeaseApi } from '../support/lease-api.ts'
import { startDaemon, type Daemon } from '../support/process.ts'
import { sandboxEnv } from '../support/reconciler.ts'

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '3' } } })
const names = ['a', 'b', 'c']
const pollMs = 50
const maxSeconds = 20

const tokenOf = (name: string): string => `token-${name}`

interface Trouble {
  begin(leader: Daemon, name: string, api: LeaseApi): void
}

const troubles: Record<string, Trouble> = {
  'kill -9': { begin: (leader) => leader.kill('SIGKILL') },
  freeze: { begin: (leader) => leader.kill('SIGSTOP') },
  'partition from the API': {
    begin(_leader, name, api) {
      api.fault = (call) => (call.token === tokenOf(name) ? 'silent' : undefined)
    },
  },
  SIGTERM: { begin: (leader) => leader.kill('SIGTERM') },
}

/** The name of the first of these that leads by its own word. */
async function firstLeader(daemons: ReadonlyMap<string, Daemon>): Promise<string> {
  for (;;) {
    for (const [name, daemon] of daemons) if ((await daemon.metrics()).sum('leader') === 1) return name
    await sleep(pollMs)
  }
}

/** Seconds from the trouble of the leader until another one leads. */
async function takeover({ begin }: Trouble): Promise<number> {
  await using sandbox = await startPlatform()
  await using api = await startLeaseApi()
  const base = { ...(await sandboxEnv(sandbox)), ...api.env }
  await using stack = new AsyncDisposableStack()
  const daemons = new Map<string, Daemon>()
  for (const name of names) {
    const directory = await api.podFolder(tokenOf(name))
    const daemon = await startDaemon({
      ...base,
      RECONCILER_INSTANCE_NAME: name,
      RECONCILER_LEADER_ELECTION_SERVICE_ACCOUNT_DIRECTORY: directory,
    })
    daemons.set(name, stack.use(daemon))
  }
  const leader = await firstLeader(daemons)
  // Somewhere between two renewals.
  await sleep(4000 * Math.random())
  const broken = daemons.get(leader)
  if (broken === undefined) throw new Error(`${leader} is not one of them`)
  begin(broken, leader, api)
  const began = performance.now()
  daemons.delete(leader)
  await firstLeader(daemons)
  const seconds = (performance.now() - began) / 1000
  broken.kill('SIGCONT')
  return seconds
}

await setup()
for (const [name, trouble] of Object.entries(troubles)) {
  const seconds: number[] = []
  for (let round = 0; round < Number(values.rounds); round += 1) seconds.push(await takeover(trouble))
  const verdict = Math.max(...seconds) <= maxSeconds ? 'reached' : 'MISSED'
  process.stdout.write(
    `${name}: another leads after ${seconds.map((one) => one.toFixed(1)).join(', ')} s; at most ${maxSeconds} s: ${verdict} ` +
      `(load ${(loadavg()[0] ?? 0).toFixed(1)})\n`,
  )
}
