// `webhook-reconciler healthcheck`: asks the daemon of this container whether it is alive, for HEALTHCHECK without curl.
import { request } from 'undici'
import { Command } from 'commander'
import { exitCode, UsageError } from '../errors.ts'
import type { End, Io } from './io.ts'

interface HealthcheckOptions {
  port?: string
}

const defaultPort = '10964'
const timeoutMs = 3000

function portOf(options: HealthcheckOptions, io: Io): number {
  const variable = io.env['RECONCILER_SERVER_PORT']
  // Kubernetes sets it to a `tcp://` address where a Service is called reconciler-server.
  const text = options.port ?? (variable?.startsWith('tcp://') === true ? undefined : variable) ?? defaultPort
  const port = Number(text)
  if (/^\d{1,5}$/.test(text) && port >= 1 && port <= 65_535) return port
  throw new UsageError(`--port: a port from 1 to 65535, not "${text}"`)
}

async function healthcheck(options: HealthcheckOptions, io: Io): Promise<boolean> {
  const url = `http://127.0.0.1:${portOf(options, io)}/livez`
  try {
    const { statusCode, body } = await request(url, { headersTimeout: timeoutMs, bodyTimeout: timeoutMs })
    const text = await body.text()
    if (statusCode === 200) return true
    io.stderr.write(`not alive: ${text}`)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'no answer'
    io.stderr.write(`not alive: ${url} does not answer (${code})\n`)
  }
  return false
}

export function healthcheckCommand(io: Io, end: End): Command {
  return new Command('healthcheck')
    .description('ask the daemon on this host whether it is alive; exit 0 when it is, 1 when not')
    .option('--port <number>', `port of the ops server; else RECONCILER_SERVER_PORT, else ${defaultPort}`)
    .action(async (options: HealthcheckOptions) => {
      end((await healthcheck(options, io)) ? exitCode.done : exitCode.incomplete)
    })
}
