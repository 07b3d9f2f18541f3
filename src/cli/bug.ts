// The last log line after a bug. The error's message is omitted: it may hold anything.
import { createLog, errorFields } from '../observe/log/log.ts'
import type { Io } from './io.ts'

export function reportBug(
  error: unknown,
  { clock, identity, stderr }: Pick<Io, 'clock' | 'identity' | 'stderr'>,
): void {
  const write = (line: string): unknown => stderr.write(line)
  const log = createLog({ level: 'fatal', instance: identity.instance, clock, write })
  log.event('unexpected_error', errorFields(error))
}
