// `webhook-reconciler healthcheck`: asks the daemon of this container whether it is alive, for HEALTHCHECK without curl.
import { request } from 'undici'
import { Command } from 'commander'
import { loadSections } from '../config/load.ts'
import { exitCode } from '../runtime/errors.ts'
import { originOf } from './daemon-address.ts'
import type { End, Io } from './io.ts'
import { configOption, type ConfigOption } from './service.ts'

interface HealthcheckOptions extends ConfigOption {
  port?: string
}

const timeoutMs = 3000

async function healthcheck(options: HealthcheckOptions, io: Io): Promise<boolean> {
  const { server } = loadSections({ file: options.config, ...io }, ['server']).config
  const url = `${originOf(server, options.port)}/livez`
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
    .option(...configOption)
    .option('--port <number>', 'port of the ops server; else server.port (RECONCILER_SERVER_PORT, 10964 by default)')
    .action(async (options: HealthcheckOptions) => {
      end((await healthcheck(options, io)) ? exitCode.done : exitCode.incomplete)
    })
}
