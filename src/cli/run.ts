// `webhook-reconciler run`: the daemon.
import { Command } from 'commander'
import { runDaemon } from '../daemon.ts'
import { exitCode } from '../runtime/errors.ts'
import { createLogOutput } from '../observe/log-output.ts'
import { createSchedule } from '../runtime/schedule.ts'
import type { End, Io } from './io.ts'
import { configOption, openAudit, openService, type ConfigOption } from './service.ts'

async function run(options: ConfigOption, io: Io): Promise<void> {
  const logOutput = createLogOutput(io.stdout)
  const { config, log, key, certificate, http, proxy } = await openService(io, options, logOutput, { daemon: true })
  io.onHangup(() => {
    log.event('sighup_ignored', {})
  })
  // Stdout is only the log here, and without a log the retries are still wanted; metrics and probes tell of them.
  io.onOutputLost(() => undefined)
  try {
    await runDaemon({
      config,
      log,
      audit: openAudit(config, io, logOutput),
      logOutput,
      key,
      certificate,
      transport: http.transport,
      proxy,
      schedule: createSchedule(config.schedule, io.clock),
      version: io.version,
      nodeVersion: io.nodeVersion,
      clock: io.clock,
      random: io.random,
      stop: io.signal,
    })
  } finally {
    await http.close()
  }
}

export function runCommand(io: Io, end: End): Command {
  return new Command('run')
    .description('run the daemon: sweep, retry, export metrics, until SIGTERM or SIGINT')
    .option(...configOption)
    .action(async (options: ConfigOption) => {
      await run(options, io)
      end(exitCode.done)
    })
}
