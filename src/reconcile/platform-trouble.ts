// Tells what the platform and its token endpoint can do to us from what is a bug of ours.
import { PlatformFailure } from '../platform/response.ts'
import { TokenError } from '../platform/token-endpoint.ts'

export function isPlatformTrouble(error: unknown): error is PlatformFailure | TokenError {
  return error instanceof PlatformFailure || error instanceof TokenError
}
