// Separates failures of the platform and its token endpoint from bugs of this program, and describes them.
import type { CallResponse } from '../platform/operations.ts'
import { PlatformFailure } from '../platform/http/response.ts'
import { TokenError } from '../platform/auth/token-response.ts'
import { redact } from '../runtime/redact.ts'

export function isPlatformTrouble(error: unknown): error is PlatformFailure | TokenError {
  return error instanceof PlatformFailure || error instanceof TokenError
}

/** Undefined if the platform fails. */
export async function unlessTrouble<Result>(asked: Promise<Result>): Promise<Result | undefined> {
  try {
    return await asked
  } catch (error) {
    if (!isPlatformTrouble(error)) throw error
    return undefined
  }
}

const ofAnyCall = new Set<PlatformFailure['reason']>(['unauthorized', 'forbidden', 'throttled'])

/** True for a failure that any next call would also have. */
export function isOfAnyCall({ reason }: PlatformFailure): boolean {
  return ofAnyCall.has(reason)
}

/** Why a call to the platform failed. */
export interface CallFailure extends CallResponse {
  /** `token`: no access token was available. */
  stage: 'token' | 'list'
  rejected: boolean
  message: string
  advice: string
  /** Cause of a missing response: a code of Node, OpenSSL or undici. */
  code?: string | undefined
}

/** The message, with the platform's own. */
export function problemOf({ message, problem }: Pick<CallFailure, 'message' | 'problem'>): string {
  return problem === undefined ? message : `${message}: ${problem}`
}

/** Sentences on the failure, and on what to do. */
export function sentencesOf(failure: CallFailure): string {
  const { advice } = failure
  const problem = problemOf(failure).replace(/\.$/, '')
  return redact(`The platform cannot be asked: ${problem}. ${advice.charAt(0).toUpperCase()}${advice.slice(1)}.`)
}

/** Undefined for a bug. */
export function failureOf(error: unknown): CallFailure | undefined {
  if (!isPlatformTrouble(error)) return undefined
  const { advice, message, reason, transportCode: code } = error
  const common = { reason, message, advice, code }
  if (error instanceof TokenError) return { ...common, stage: 'token', rejected: error.kind === 'rejected' }
  const { problem, status } = error
  return { ...common, problem, status, stage: 'list', rejected: reason === 'unauthorized' || reason === 'forbidden' }
}
