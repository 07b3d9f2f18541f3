// How many retries may be without a known outcome at once: a circuit for each subscription, and one for the receiver as a whole. @see design section 12
export const circuitStates = ['closed', 'probing', 'open'] as const
/** `open`: it pauses; `probing`: its allowance is not yet back to where it began; `closed`: all is well. */
export type CircuitState = (typeof circuitStates)[number]

export interface CircuitFact {
  type: 'circuit'
  /** Undefined for the receiver as a whole. */
  subscriptionId: string | undefined
  to: CircuitState
  /** With `open`: how long it pauses, and the judged outcomes that made it. */
  pauseMs?: number
  failedAgain?: number
  judged?: number
}

/** A circuit as people see it. */
export interface CircuitView {
  /** Undefined for the receiver as a whole. */
  subscriptionId: string | undefined
  state: CircuitState
  allowance: number
  /** Retries without a known outcome. */
  outstanding: number
  /** How long its pause goes on, in ms; 0 when it does not pause. */
  pausesForMs: number
}
