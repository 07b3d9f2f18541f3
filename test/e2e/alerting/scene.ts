// One instance under watch: a platform of its own, and the real daemon beside it on a port that stays the same when it restarts.
import { readFile } from 'node:fs/promises'
import { systemClock } from '../../../src/runtime/clock.ts'
import type { SandboxOptions } from '../../../sandbox/options.ts'
import type { Sandbox } from '../../../sandbox/sandbox.ts'
import { sandboxEnv } from '../../support/reconciler.ts'
import { startPlatform } from '../../support/platform.ts'
import { testKeys } from '../../support/keys.ts'
import { makeFolder, startDaemon, type Daemon } from '../../support/process.ts'
import { freePort } from '../../bench/process-figures.ts'

export type Environment = Readonly<Record<string, string>>

export interface SceneOptions {
  instance: string
  platform?: Partial<SandboxOptions>
  /** Of the daemon, besides what every instance has. */
  env?: (sandbox: Sandbox) => Environment
}

export interface Scene extends AsyncDisposable {
  readonly instance: string
  readonly port: number
  readonly sandbox: Sandbox
  /** Failed records that are due: some days old, last tried half a day ago. Their ids. */
  fail(count: number): string[]
  /** One that failed long ago and is not due for hours: it stays missing, no matter what the daemon does. Its id. */
  failForHours(): string
  /** Puts the key of this name (see testKeys) into the daemon's key file. */
  useKey(name: string): Promise<void>
  /** Ends the daemon in good order. */
  stop(): Promise<void>
  /** Starts it again on its port, with other settings. */
  start(changes?: Environment): Promise<void>
  /** The sum over the series of one of its metrics. */
  sum(name: string, labels?: Readonly<Record<string, string>>): Promise<number>
}

const hourMs = 3_600_000

/**
 * The daemon's own times, as far as the alerts wait for them, are shortened like those of the rules; the exported ones
 * (recovery.target, the time at which progress is due) come with them.
 */
function shortened(factor: number): Environment {
  const ms = (minutes: number): string => `${Math.round((minutes * 60_000) / factor)}ms`
  return {
    RECONCILER_SCHEDULE_CRON: '* * * * * *',
    RECONCILER_RECOVERY_TARGET: ms(60),
    RECONCILER_RECEIVER_INTERVAL: '1s',
    RECONCILER_CIRCUIT_COOLDOWN: ms(0.5),
    RECONCILER_CIRCUIT_MAX_COOLDOWN: ms(10),
    RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '100',
  }
}

export async function startScene({ instance, platform = {}, env }: SceneOptions, factor: number): Promise<Scene> {
  await using parts = new AsyncDisposableStack()
  const sandbox = parts.use(await startPlatform(platform))
  const folder = parts.use(await makeFolder())
  const useKey = async (name?: string): Promise<string> =>
    folder.write('key.pem', await readFile((await testKeys(name)).privateKeyFile, 'utf8'))
  const port = await freePort()
  const settings = {
    ...(await sandboxEnv(sandbox)),
    ...shortened(factor),
    RECONCILER_AUTH_PRIVATE_KEY_FILE: await useKey(),
    RECONCILER_INSTANCE_NAME: instance,
    RECONCILER_SERVER_PORT: String(port),
    RECONCILER_LOG_LEVEL: 'info',
    ...env?.(sandbox),
  }
  let daemon: Daemon | undefined

  function running(): Daemon {
    if (daemon === undefined) throw new Error(`the daemon of ${instance} is stopped`)
    return daemon
  }

  async function start(changes: Environment = {}): Promise<void> {
    daemon = await startDaemon({ ...settings, ...changes })
  }

  parts.defer(() => daemon?.[Symbol.asyncDispose]())
  await start()
  const kept = parts.move()

  return {
    instance,
    port,
    sandbox,
    fail(count) {
      const now = systemClock.now()
      return sandbox.seed({ count, from: now - 100 * hourMs, to: now - 12 * hourMs, attempts: 1 })
    },
    failForHours() {
      const now = systemClock.now()
      return sandbox.addWebhook({ eventInstant: now - 12 * hourMs, attempts: 12, lastAttempt: now })
    },
    async useKey(name) {
      await useKey(name)
    },
    async stop() {
      running().kill('SIGTERM')
      await running().ended()
      daemon = undefined
    },
    start,
    sum: async (name, labels) => (await running().metrics()).sum(name, labels),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}
