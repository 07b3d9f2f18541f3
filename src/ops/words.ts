// How numbers, times and spans are written for people on the status page. Times are UTC.
import { html, type Html } from './html.ts'

const numbers = new Intl.NumberFormat('en', { maximumFractionDigits: 1 })
const [secondMs, minuteMs, hourMs, dayMs] = [1000, 60_000, 3_600_000, 86_400_000]
const maxWordLength = 80

/** `7,000`, `0.5`. */
export function count(value: number): string {
  return numbers.format(value)
}

/** `1 delivery`, `7,000 deliveries`. */
export function counted(value: number, one: string, many: string): string {
  return `${count(value)} ${value === 1 ? one : many}`
}

/** `12 s`, `5 min`, `3 h 20 min`, `2 d 4 h`; a span below zero counts as none. */
export function span(ms: number): string {
  const whole = Math.max(0, ms)
  const with_ = (big: number, bigName: string, small: number, smallName: string): string => {
    const rest = Math.floor((whole % big) / small)
    return `${Math.floor(whole / big)} ${bigName}${rest === 0 ? '' : ` ${rest} ${smallName}`}`
  }
  if (whole < minuteMs) return `${Math.floor(whole / secondMs)} s`
  if (whole < hourMs) return `${Math.floor(whole / minuteMs)} min`
  return whole < 2 * dayMs ? with_(hourMs, 'h', minuteMs, 'min') : with_(dayMs, 'd', hourMs, 'h')
}

/** `11:57:00` for a time of the same day, else `2026-01-14 11:57:00`. */
export function clockTime(iso: string, now: string): string {
  const [day = '', time = ''] = iso.split('T')
  const seconds = time.slice(0, 8)
  return now.startsWith(`${day}T`) ? seconds : `${day} ${seconds}`
}

/** A time that machines can read, too; a dash when there is none. */
export function timeOf(iso: string | null, now: string): Html {
  if (iso === null) return html`<span class="none">none</span>`
  return html`<time datetime="${iso}">${clockTime(iso, now)}</time>`
}

/** `5 min ago`, `just now`, `now`, `in 12 s`; both in ISO 8601. */
export function fromNow(iso: string, now: string): string {
  const ahead = Date.parse(iso) - Date.parse(now)
  if (Math.abs(ahead) < secondMs) return ahead > 0 ? 'now' : 'just now'
  return ahead > 0 ? `in ${span(ahead + secondMs - 1)}` : `${span(-ahead)} ago`
}

/** How many a minute: a tenth counts only where there are few. */
export function pace(perMinute: number): string {
  return count(perMinute < 10 ? perMinute : Math.round(perMinute))
}

/** `HTTP 503`, or that the receiver did not answer. */
export function response(code: number | null): string {
  return code === null ? 'no response' : `HTTP ${code}`
}

/** A word from outside, cut where it gets too long for a table. */
export function word(text: string): string {
  if (text === '') return '(none)'
  const characters = [...text.toWellFormed()]
  return characters.length <= maxWordLength ? text : `${characters.slice(0, maxWordLength - 1).join('')}…`
}
