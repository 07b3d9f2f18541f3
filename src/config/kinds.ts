// Kinds of values: how each is written, what is allowed, and how it is parsed.
import { isIPv6 } from 'node:net'
import { validate as isCron } from 'node-cron'
import { z } from 'zod/mini'
import { parseInstant } from '../runtime/instant.ts'
import { gapsOf } from '../runtime/schedule.ts'
import { isUuid, uuidPattern } from '../runtime/uuid.ts'
import { durationPattern, parseDuration } from './duration.ts'

/** A kind of value. Its zod schema parses the YAML value; `fromText` first converts the text of an environment variable. */
export interface Kind<S extends z.ZodMiniType> {
  schema: S
  /** For tables: `duration, 1s to 6h`. */
  type: string
  /** The message about an invalid value: `must be ...`. */
  must: string
  /** A more specific message about some invalid values. */
  refusal?: (raw: unknown) => string | undefined
  /** Converts the text of an environment variable into its YAML value. Default, and for other texts: unchanged. */
  fromText?: (text: string) => unknown
  /** False if no message may repeat an invalid value. Default: true. */
  shown?: boolean
  /** True if any text is meant literally. Default: a misread one (`misreadOf`) is rejected. */
  verbatim?: boolean
}

/** YAML reads `realm: 0123` as a number and `name: true` as a boolean. */
function unquoted(raw: unknown): string | undefined {
  return typeof raw === 'number' || typeof raw === 'boolean'
    ? `must be text, and YAML reads a ${typeof raw} here: put it in quotes`
    : undefined
}

interface TextForm<T> extends Omit<Kind<z.ZodMiniType>, 'schema'> {
  pattern: RegExp
  /** Returns undefined for an invalid text. Default: the text unchanged; then a number must be quoted. */
  parse?: (text: string) => T | undefined
}

/** A kind written as text. */
export function written<T = string>({ parse, pattern, ...about }: TextForm<T>): Kind<z.ZodMiniType<T, string>> {
  const schema = z.pipe(
    z.string().check(z.regex(pattern)),
    z.transform((text: string, { issues }) => {
      const value = parse === undefined ? (text as T) : parse(text)
      if (value !== undefined) return value
      issues.push({ code: 'custom', input: text })
      return z.NEVER
    }),
  )
  return { schema, ...(parse === undefined && { refusal: unquoted }), ...about }
}

/** Becomes milliseconds. The bounds are inclusive durations. */
export function duration(min: string, max: string): Kind<z.ZodMiniType<number, string>> {
  const [minMs = 0, maxMs = 0] = [parseDuration(min), parseDuration(max)]
  return written({
    type: `duration, ${min} to ${max}`,
    must: `must be a duration from ${min} to ${max}, written as a whole number and one unit (ms, s, m, h, d), such as 90s`,
    pattern: durationPattern,
    parse(text) {
      const ms = parseDuration(text)
      return ms === undefined || ms < minMs || ms > maxMs ? undefined : ms
    },
  })
}

function bounded(
  schema: z.ZodMiniType<number, number>,
  name: string,
  [min, max]: readonly [number, number],
): Kind<z.ZodMiniType<number, number>> {
  return {
    schema: schema.check(z.minimum(min), z.maximum(max)),
    type: `${name}, ${min} to ${max}`,
    must: `must be a ${name} from ${min} to ${max}`,
    fromText: (text) => (/^[+-]?\d+(\.\d+)?$/.test(text) ? Number(text) : text),
  }
}

/** A whole number; both bounds are inclusive. */
export function integer(...range: [min: number, max: number]): Kind<z.ZodMiniType<number, number>> {
  return bounded(z.int(), 'whole number', range)
}

/** A number with or without a fraction; both bounds are inclusive. */
export function decimal(...range: [min: number, max: number]): Kind<z.ZodMiniType<number, number>> {
  return bounded(z.number(), 'number', range)
}

/** `true` or `false`, in the three spellings of YAML. */
export const flag: Kind<z.ZodMiniType<boolean, boolean>> = {
  schema: z.boolean(),
  type: 'true or false',
  must: 'must be true or false',
  fromText(text) {
    if (['true', 'True', 'TRUE'].includes(text)) return true
    return ['false', 'False', 'FALSE'].includes(text) ? false : text
  },
}

/** One of a few words. */
export function choice<const Word extends string>(words: readonly Word[]): Kind<z.ZodMiniType<Word, Word>> {
  const list = words.join(', ')
  return { schema: z.enum(words), type: list, must: `must be one of ${list}` }
}

export const text = written({
  type: 'text',
  must: 'must be one line of text, 1 to 500 characters, without spaces at its ends',
  pattern: /^(?!\s)[^\x00-\x1f\x7f-\x9f]{1,500}(?<!\s)$/,
  shown: false,
})

/** A word used literally in a URL path or protocol field: no spaces, no URL syntax. */
export const word = written({
  type: 'text',
  must: 'must be 1 to 200 letters, digits or . _ ~ -',
  pattern: /^(?!\.{1,2}$)[\w.~-]{1,200}$/,
  shown: false,
})

/** A scope of RFC 6749, or empty. @see RFC 6749 section 3.3 */
export const scope = written({
  type: 'text, may be empty',
  must: 'must be scope names separated by single spaces, or empty',
  pattern: /^(?:[!#-[\]-~]+(?: [!#-[\]-~]+)*)?$/,
  shown: false,
})

/** A file path. Rejects the content of a key or certificate, also in Base64: the path is shown in messages. */
export const filePath = written({
  type: 'path of a file',
  must: 'must be the path of a file (its content does not belong here)',
  pattern: /^(?!.*-----BEGIN|\s*(?:MII|LS0tLS1))[^\x00-\x1f\x7f-\x9f]{1,1023}$/,
  shown: false,
})

/** The name of a Kubernetes object. @see RFC 1123 section 2.1 */
export const objectName = written({
  type: 'name of a Kubernetes object',
  must: 'must be a Kubernetes name: up to 253 lower-case letters, digits, - or . between letters and digits',
  pattern: /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/,
})

/** Text that is never shown. */
export const secretText = written({ type: 'text', must: 'must be text and not empty', pattern: /[\s\S]/, shown: false })

/** A literal secret: a passphrase may begin and end with any character, and a key has many forms. */
export const verbatimSecret = { ...secretText, verbatim: true }
export const pemSecret = { ...verbatimSecret, type: 'PEM' }

/** An IANA time zone, normalized to its canonical name. Offsets are rejected, because they lack daylight saving. */
export const timeZone = written({
  type: 'IANA time zone',
  must: 'must be an IANA time zone such as UTC or Europe/Berlin',
  pattern: /^[A-Za-z]/,
  parse(name) {
    try {
      return new Temporal.ZonedDateTime(0n, name).timeZoneId
    } catch {
      return undefined
    }
  },
})

/** Largest meaningful step of seconds, minutes and hours: node-cron reads a larger one as "at 0 only". */
const maxSteps = [59, 59, 23]

/** A cron expression of six fields, seconds first. */
export const cron = written({
  type: 'cron expression of 6 fields',
  must: 'must be a cron expression of 6 fields (second minute hour day month weekday) with dates that exist, such as */30 * * * * *',
  pattern: /^[^\t\r\n]+$/,
  parse(expression) {
    const fields = expression.trim().split(/ +/)
    const cron = fields.join(' ')
    const stepsFit = maxSteps.every((max, index) => Number(/\/(\d+)/.exec(fields[index] ?? '')?.[1] ?? 1) <= max)
    return fields.length === 6 && stepsFit && isCron(cron) && gapsOf(cron).max < Infinity ? cron : undefined
  },
})

/** A time with zone; becomes epoch ms. */
export const instant = written({
  type: 'moment with zone',
  must: 'must be a date, time and zone such as 2026-01-01T00:00:00Z or 2026-01-01T01:00:00+01:00',
  pattern: /^\d{4}-\d{2}-\d{2}[Tt ]/,
  parse: parseInstant,
})

/** Splits at commas: the form of lists in the environment. */
function listFromText(list: string): string[] {
  return list.split(',').map((entry) => entry.trim())
}

const maxEntries = 1000

function list(item: TextForm<string>): Kind<z.ZodMiniType<string[], string[]>> {
  return {
    schema: z.pipe(
      z.array(written(item).schema).check(z.maxLength(maxEntries)),
      z.transform((entries: string[]) => [...new Set(entries)]),
    ),
    type: item.type,
    must: item.must,
    refusal: (raw) =>
      Array.isArray(raw) && raw.length > maxEntries ? `must have at most ${maxEntries} entries` : undefined,
    fromText: listFromText,
  }
}

/** A list of names without duplicates. */
export const names = list({
  type: 'list of names',
  must: 'must be a list of names (letters, digits, . _ : / -), such as [one, two]; in the environment: one,two',
  pattern: /^[\w.:/-]{1,200}$/,
})

/** A program and its arguments, run without a shell. They are literal: a placeholder may be that of a shell. */
export const command: Kind<z.ZodMiniType<string[], string[]>> = {
  schema: z.array(z.string().check(z.regex(/^[^\0]*$/))).check(
    z.minLength(1),
    z.refine(([program]) => program !== ''),
  ),
  type: 'program and arguments',
  must: 'must be a list of a program and its arguments, such as [/usr/local/bin/sign, --key, payments]; in the environment as JSON, in double quotes',
  fromText(text) {
    try {
      return JSON.parse(text) as unknown
    } catch {
      return text
    }
  },
  shown: false,
  verbatim: true,
}

/** A list of UUIDs, normalized to lower case. */
export const uuids = list({
  type: 'list of UUIDs',
  must: 'must be a list of UUIDs, such as [123e4567-e89b-12d3-a456-426614174000]; in the environment separated by commas',
  pattern: uuidPattern,
  parse: (id) => id.toLowerCase(),
})

const areUnique = (texts: string[]): boolean => new Set(texts).size === texts.length

const subscriptionName = z.string().check(
  z.regex(/^(?! |other$)[^\x00-\x1f\x7f-\x9f]{1,40}$/),
  z.refine((text) => !isUuid(text)),
)

/** Names by UUID, normalized to lower case. Each name means one UUID; metrics have `other` for all without a name. */
export const namesByUuid: Kind<z.ZodMiniType<Record<string, string>, Record<string, string>>> = {
  schema: z.pipe(
    z
      .record(z.string().check(z.regex(uuidPattern)), subscriptionName)
      .check(z.refine((named) => areUnique(Object.entries(named).flatMap(([id, text]) => [id.toLowerCase(), text])))),
    z.transform((named: Record<string, string>) =>
      Object.fromEntries(Object.entries(named).map(([id, text]) => [id.toLowerCase(), text])),
    ),
  ),
  type: 'names by UUID',
  must:
    'must be names of up to 40 characters by UUID, such as {123e4567-e89b-12d3-a456-426614174000: payments-eu}, ' +
    'each UUID and each name once, and no name a UUID or other; in the environment UUID=name, separated by commas',
  /** An object would keep the last of repeated UUIDs. */
  fromText(text) {
    const entries = listFromText(text).map((entry) => {
      const [id = '', ...rest] = entry.split('=')
      return [id, rest.join('=')] as const
    })
    return areUnique(entries.map(([id]) => id)) ? Object.fromEntries(entries) : text
  },
}

export const listenHost = written({
  type: 'host name or address',
  must: 'must be a host name or an address to listen on, such as 0.0.0.0 or ::, without brackets and port',
  pattern: /^[A-Za-z0-9._:%-]{1,253}$/,
  parse: (host) => (/[:%]/.test(host) && !isIPv6(host) ? undefined : host),
})
