// Kinds of values in the sandbox's options, and the error for invalid ones.
import { z } from 'zod'

export const milliseconds = z.number().min(0)
export const share = z.number().min(0).max(1)
export const httpStatus = z.number().int().min(100).max(599)
export const count = z.number().int().min(0)
export const names = z.array(z.string()).readonly()
export const someNames = z.array(z.string()).min(1).readonly()
export const headers = z.record(z.string(), z.string())

/** Epoch milliseconds, or an instant such as `2025-03-04T05:06:07Z`. */
export const instant = z.union([
  z.number(),
  z.iso
    .datetime({ offset: true, error: 'epoch milliseconds, or an instant such as 2025-03-04T05:06:07Z' })
    .transform((text) => Date.parse(text)),
])

/** The fields of a JSON object; undefined for any other text. */
export function jsonFields(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    return isObject ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

/** Invalid input for the sandbox; the message lists each field with its problem. */
export class SandboxInputError extends Error {
  readonly code = 'SANDBOX_INPUT'
}

/** @throws SandboxInputError */
export function parseInput<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const problems = parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'the whole'}: ${message}`)
  throw new SandboxInputError(problems.join('; '))
}
