// The shape of a log event: its levels, the kinds of its fields, and the types that these give.

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'fatal'

/** The kind of a field's value; with a question mark the field may be missing. */
type FieldKind = 'string' | 'number' | 'boolean' | 'strings'
export type FieldKinds = Readonly<Record<string, FieldKind | `${FieldKind}?`>>

export interface LogEvent {
  /** The first is the default; a repetition is logged at the second. */
  levels: readonly [LogLevel, ...LogLevel[]]
  /** Short and constant; values are fields. */
  message: string
  /** All fields that a line may have, beside `level`, `time`, `instance`, `event` and `msg`. */
  fields: FieldKinds
  meaning: string
}

interface Values {
  string: string
  number: number
  boolean: boolean
  strings: readonly string[]
}
type IsOptional<Kind> = Kind extends `${string}?` ? true : false
type ValueOf<Kind> = Kind extends keyof Values
  ? Values[Kind]
  : Kind extends `${infer Base extends keyof Values}?`
    ? Values[Base]
    : never
/** The fields of a line. */
export type FieldsOf<Kinds> = {
  readonly [Name in keyof Kinds as IsOptional<Kinds[Name]> extends true ? never : Name]: ValueOf<Kinds[Name]>
} & {
  readonly [Name in keyof Kinds as IsOptional<Kinds[Name]> extends true ? Name : never]?:
    ValueOf<Kinds[Name]> | undefined
}
