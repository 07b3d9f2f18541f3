// What `npm run sandbox` is to play: its flags over its file over the defaults, checked.
import { parse as parseYaml } from 'yaml'
import { z } from 'zod'
import type { Clock } from '../src/runtime/clock.ts'
import { unreadable } from '../src/config/layer.ts'
import { UsageError } from '../src/runtime/errors.ts'
import type { SandboxOptions } from './options.ts'
import type { ReceiverRule } from './receiver.ts'
import type { TrafficOptions } from './records.ts'
import {
  faultRuleSchema,
  parseInput,
  readingsSchema,
  receiverRuleSchema,
  SandboxInputError,
  seedSchema,
  trafficSchema,
} from './schema.ts'
import type { SeedOptions } from './seed.ts'

export interface PlanIo {
  clock: Clock
  /** UTF-8 text of a file; throws as node:fs does. */
  readFile: (path: string) => string
}

/** The command line's options, as they come. */
export interface Flags {
  certificate?: string
  config?: string
  clientId?: string
  realm?: string
  host?: string
  port?: string
  identityPort?: string
  receiverPort?: string
  controlPort?: string
  publicUrl?: string
  prefix?: string
  authPath?: string
  seed?: string
  timeZone?: string
  records?: string
  days?: string
  failedShare?: string
  subscriptions?: string
  spread?: string
  eventsPerSecond?: string
  receiver?: string
  latency?: string
  order?: string
  delivery?: string
  deliveryDelay?: string
  counting?: string
  errorStatus?: string
  rateLimit?: string
  tokenLifetime?: string
  skew?: string
}

const port = z.number().int().min(0).max(65_535)

/** The file of --config, and what the flags are turned into. */
const planSchema = z.strictObject({
  ...readingsSchema.shape,
  clientId: z.string().min(1).optional(),
  realm: z
    .string()
    .regex(/^[\w.-]+$/, 'letters, digits, dots, hyphens and underscores')
    .optional(),
  host: z.string().min(1).optional(),
  port: port.optional(),
  identityPort: port.optional(),
  receiverPort: port.optional(),
  controlPort: port.optional(),
  publicOrigin: z.url().optional(),
  pathPrefix: z.string().optional(),
  authPath: z.string().optional(),
  seed: z.number().int().optional(),
  timeZone: z.string().optional(),
  checkCertificateDates: z.boolean().optional(),
  subscribers: z.record(z.string(), z.url()).optional(),
  faults: z.array(faultRuleSchema).optional(),
  records: z.array(seedSchema).optional(),
  traffic: trafficSchema.optional(),
  receiver: z
    .strictObject({ state: z.enum(['up', 'down']).optional(), fail: z.array(receiverRuleSchema).optional() })
    .optional(),
})

type PlanFile = z.infer<typeof planSchema>

const dayMs = 24 * 60 * 60 * 1000
export const defaultPorts = { port: 8090, controlPort: 8091, receiverPort: 8092 }
export const defaultRecords = 1000
const defaultDays = 7

function numberOf(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (!/^-?\d+(\.\d+)?$/.test(text)) throw new UsageError(`${flag}: a number, not "${text}"`)
  return Number(text)
}

/** What the flags say, in the words of the file. */
function planOfFlags(flags: Flags, file: PlanFile): Record<string, unknown> {
  const skewMs = numberOf('--skew', flags.skew)
  const delayMs = numberOf('--delivery-delay', flags.deliveryDelay)
  const requestsPerSecond = numberOf('--rate-limit', flags.rateLimit)
  const latencyMs = numberOf('--latency', flags.latency)
  const perSecond = numberOf('--events-per-second', flags.eventsPerSecond)
  const latency = { operation: 'api', fault: { kind: 'latency', ms: latencyMs } }
  return {
    clientId: flags.clientId,
    realm: flags.realm,
    host: flags.host,
    port: numberOf('--port', flags.port),
    identityPort: numberOf('--identity-port', flags.identityPort),
    receiverPort: numberOf('--receiver-port', flags.receiverPort),
    controlPort: numberOf('--control-port', flags.controlPort),
    publicOrigin: flags.publicUrl,
    pathPrefix: flags.prefix,
    authPath: flags.authPath,
    seed: numberOf('--seed', flags.seed),
    timeZone: flags.timeZone,
    order: flags.order,
    delivery:
      flags.delivery === undefined && delayMs === undefined
        ? undefined
        : { mode: flags.delivery ?? 'async', delayMs: delayMs ?? 0 },
    counting: flags.counting,
    errorStatus: numberOf('--error-status', flags.errorStatus),
    rateLimit: requestsPerSecond === undefined ? undefined : { requestsPerSecond, retryAfter: 'seconds' },
    expiresIn: numberOf('--token-lifetime', flags.tokenLifetime),
    skewMs,
    traffic: perSecond === undefined ? undefined : { perSecond },
    receiver: flags.receiver === undefined ? undefined : { ...file.receiver, state: flags.receiver },
    faults: latencyMs === undefined ? undefined : [...(file.faults ?? []), latency],
  }
}

/** The records that the flags ask for; undefined when they don't ask. */
function seedOfFlags(flags: Flags, now: number): Record<string, unknown> | undefined {
  const { records, days, failedShare, subscriptions, spread } = flags
  const asked = [records, days, failedShare, subscriptions, spread].some((flag) => flag !== undefined)
  if (!asked) return undefined
  return given({
    count: numberOf('--records', records) ?? defaultRecords,
    from: now - (numberOf('--days', days) ?? defaultDays) * dayMs,
    to: now,
    failed: numberOf('--failed-share', failedShare),
    subscriptions: numberOf('--subscriptions', subscriptions),
    spread,
  })
}

function given(values: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined))
}

function checked(value: unknown, where: string): PlanFile {
  try {
    return parseInput(planSchema, value)
  } catch (error) {
    if (error instanceof SandboxInputError) throw new UsageError(`${where}: ${error.message}`)
    throw error
  }
}

/** @throws UsageError that names the flag */
export function readText(io: PlanIo, flag: string, path: string): string {
  try {
    return io.readFile(path)
  } catch (error) {
    throw new UsageError(`${flag}: the file ${path} ${unreadable(error)}`)
  }
}

function readPlanFile(io: PlanIo, path: string): PlanFile {
  const text = readText(io, '--config', path)
  let value: unknown
  try {
    value = parseYaml(text) ?? {}
  } catch {
    throw new UsageError(`--config: ${path} is no YAML`)
  }
  return checked(value, `--config ${path}`)
}

/** What is to be played, and what is in it at first. */
export interface Plan {
  options: Partial<SandboxOptions>
  records: SeedOptions[]
  traffic: TrafficOptions | undefined
  receiver: { state?: 'up' | 'down' | undefined; fail?: ReceiverRule[] | undefined }
}

/** @throws UsageError */
export function planOf(flags: Flags, io: PlanIo): Plan {
  const file = flags.config === undefined ? {} : readPlanFile(io, flags.config)
  const now = io.clock.now()
  const seed = seedOfFlags(flags, now)
  const fromFlags = given({ ...planOfFlags(flags, file), records: seed === undefined ? undefined : [seed] })
  const { records, traffic, receiver, ...options } = checked({ ...file, ...fromFlags }, 'options')
  return {
    options: { ...defaultPorts, ...(given(options) as Partial<SandboxOptions>) },
    records: records ?? [{ count: defaultRecords, from: now - defaultDays * dayMs, to: now }],
    traffic,
    receiver: receiver ?? {},
  }
}
