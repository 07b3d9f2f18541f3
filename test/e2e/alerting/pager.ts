// The end of the line: an HTTP server to which Alertmanager sends, in the place of the person on call. Keeps all that arrives.
import { createServer } from 'node:http'
import { closeServer, listen, readBody } from '../../../sandbox/api/http.ts'

export interface Notice {
  alert: string
  /** Empty when the alert names none. */
  instance: string
  status: 'firing' | 'resolved'
  severity: string
  summary: string
  runbook: string
  /** Epoch ms of its arrival. */
  at: number
}

export interface Pager extends AsyncDisposable {
  readonly url: string
  /** All that arrived, in order; of one instance, if it is named. */
  notices(instance?: string): Notice[]
}

/** What Alertmanager posts, as far as it is read here. @see https://prometheus.io/docs/alerting/latest/configuration/#webhook_config */
interface Posted {
  alerts: {
    status: 'firing' | 'resolved'
    labels: Readonly<Record<string, string>>
    annotations: Readonly<Record<string, string>>
  }[]
}

function toNotices(body: string, at: number): Notice[] {
  const { alerts } = JSON.parse(body) as Posted
  return alerts.map(({ status, labels, annotations }) => ({
    alert: labels['alertname'] ?? '',
    instance: labels['instance'] ?? '',
    status,
    severity: labels['severity'] ?? '',
    summary: annotations['summary'] ?? '',
    runbook: annotations['runbook_url'] ?? '',
    at,
  }))
}

export async function startPager(): Promise<Pager> {
  const kept: Notice[] = []
  const server = createServer((request, response) => {
    readBody(request)
      .then((body) => {
        kept.push(...toNotices(body, Date.now()))
        response.end()
      })
      .catch(() => {
        // Alertmanager would send it again: what cannot be read must not be lost without a trace.
        const nothing = { severity: '', summary: '', runbook: '' }
        kept.push({ alert: 'unreadable notice', instance: '', status: 'firing', ...nothing, at: Date.now() })
        response.end()
      })
  })
  const url = `${await listen(server, '127.0.0.1', 0)}/`

  return {
    url,
    notices: (instance) => kept.filter((notice) => instance === undefined || notice.instance === instance),
    [Symbol.asyncDispose]: () => closeServer(server),
  }
}
