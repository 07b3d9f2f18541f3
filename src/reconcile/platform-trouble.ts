// Separates failures of the platform and its token endpoint from bugs of this program.
import { PlatformFailure } from '../platform/http/response.ts'
import { TokenError } from '../platform/auth/token-answer.ts'

export function isPlatformTrouble(error: unknown): error is PlatformFailure | TokenError {
  return error instanceof PlatformFailure || error instanceof TokenError
}
