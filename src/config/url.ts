// URLs of the platform in the configuration: which are taken, and which are refused before anything is sent to them.
import { z } from 'zod'
import type { Kind } from './kinds.ts'

/** True for http URLs whose host is this machine: 127.0.0.0/8, ::1 and localhost. */
export function isLoopback(url: URL): boolean {
  return /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/.test(url.hostname)
}

/** What a key's URL looks like. */
interface Form {
  example: string
  /** Taken schemes, as people say it. */
  schemes: string
  /** Whether it may have a query. */
  query: boolean
}

/** Why a text can't be such a URL; undefined when it can. The text may hold a password, so no message repeats it. */
function refusal(text: string, form: Form): string | undefined {
  // URL() would silently drop or turn these.
  if (/[\s\\\p{Cc}]/u.test(text)) return 'must be a URL without spaces, line breaks and backslashes'
  const { example, query } = form
  if (text.includes('#')) return 'must be a URL without fragment (#)'
  if (!query && text.includes('?')) return 'must be a URL without query (?)'
  const url = URL.parse(text)
  if (url === null) return `must be a URL such as ${example}`
  if (/^https?:\/\/[^/]*@/i.test(text)) return 'must be a URL without user name and password'
  return undefined
}

const api: Form = { example: 'https://api.example.com/v1', schemes: 'https://', query: false }
const health: Form = { example: 'http://receiver:8080/healthz', schemes: 'http:// or https://', query: true }

const withoutTrailingSlashes = (text: string): string => text.replace(/\/+$/, '')

function urlKind(normalize: (text: string) => string, form: Form): Kind<z.ZodType<string, string>> {
  const error = `must be a URL that starts with ${form.schemes}, such as ${form.example}`
  const schema = z
    .string({ error })
    .regex(/^https?:\/\/[^/]/i, { error })
    .transform((text, context) => {
      const message = refusal(text, form)
      if (message === undefined) return normalize(text)
      context.addIssue({ code: 'custom', message, input: text })
      return z.NEVER
    })
  return { schema, type: 'URL', fromText: (text) => text, shown: false }
}

/** A base URL with any path, in the form that URL() gives it, without trailing slash. */
export function baseUrl(): Kind<z.ZodType<string, string>> {
  return urlKind((text) => withoutTrailingSlashes(new URL(text).href), api)
}

/** A URL that is compared as text by the other side (the audience of assertions): as written, only without trailing slash. */
export function exactUrl(): Kind<z.ZodType<string, string>> {
  return urlKind(withoutTrailingSlashes, api)
}

/** A URL that is only asked whether it answers, so plain http is taken; with its path and query as they were written. */
export function healthUrl(): Kind<z.ZodType<string, string>> {
  return urlKind((text) => new URL(text).href, health)
}
