// What a list call asks for, read from its address once: the daemon sweeps, checks outcomes and asks questions with the same call.
import { listParameter } from '../../src/platform/wire.ts'
import { defaultPageSize } from '../../sandbox/api/wire.ts'

export interface Asked {
  status: string | undefined
  /** Lower case. */
  eventId: string | undefined
  /** Seconds on the platform's wall clock. */
  from: number | undefined
  to: number | undefined
  page: number
  size: number
}

/** Of a call that may be a list. */
interface MayAsk {
  asked: Asked | undefined
}

function secondOf(text: string | null): number | undefined {
  return text === null ? undefined : Date.parse(`${text}Z`) / 1000
}

export function askedOf({ searchParams }: URL): Asked {
  return {
    status: searchParams.get(listParameter.status) ?? undefined,
    eventId: searchParams.get(listParameter.eventId)?.toLowerCase(),
    from: secondOf(searchParams.get(listParameter.from)),
    to: secondOf(searchParams.get(listParameter.to)),
    page: Number(searchParams.get(listParameter.pageNumber) ?? 0),
    size: Number(searchParams.get(listParameter.pageSize) ?? defaultPageSize),
  }
}

/** A question whether the platform answers, how much there is, or whether filters work: it asks for one row, or for no time or event. */
export function isQuestion({ asked }: MayAsk): boolean {
  if (asked === undefined) return false
  return asked.size === 1 || (asked.from ?? asked.eventId ?? asked.status) === undefined
}

/** Sweeps list by status, checks of outcomes do not. */
export function isSweepPage(call: MayAsk): boolean {
  return call.asked?.status !== undefined && !isQuestion(call)
}

/** True if a list is for its second: it asks for one more on either side, whose rows are another slice's, or come later. */
export function isListedFor({ asked }: MayAsk, { eventLocal }: { eventLocal: number }): boolean {
  const second = Math.floor(eventLocal / 1000)
  return (asked?.from ?? -Infinity) < second && second < (asked?.to ?? Infinity)
}
