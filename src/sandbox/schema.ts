// What may be told to the sandbox as data: checks the files of the command line and the bodies of the control API, and names what is wrong.
import { z } from 'zod'
import { webhookStatuses } from '../platform/wire.ts'
import type { Fault, FaultRule } from './faults.ts'
import type { ErrorStatuses, Readings } from './options.ts'
import type { ReceiverRule } from './receiver.ts'
import type { EventOptions, TrafficOptions } from './records.ts'
import type { SeedOptions, WebhookOptions } from './seed.ts'

/** Makes optional keys accept undefined as `exactOptionalPropertyTypes` wants it from parsed data: by leaving them out. */
type Loose<T> = { [K in keyof T]: T[K] | (undefined extends T[K] ? undefined : never) }

const milliseconds = z.number().min(0)
const share = z.number().min(0).max(1)
const status = z.number().int().min(100).max(599)
const names = z.array(z.string())
