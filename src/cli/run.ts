// `webhook-reconciler run`: the daemon.
import { runDaemon } from '../daemon.ts'
import { exitCode, type ExitCode } from '../runtime/errors.ts'
import { createLogOutput } from '../observe/log-output.ts'
import { createSchedule } from '../runtime/schedule.ts'
import type { Io } from './io.ts'
import { openAudit, openService, type ConfigOption } from './service.ts'

/** Runs `run`; resolves after SIGTERM or SIGINT. */
export async function runCommand(io: Io, options: ConfigOption): Promise<ExitCode> {
  const logOutput = createLogOutput(io.stdout)
  const { config, log, key, certificate, http, proxy } = await openService(io, options, logOutput, { daemon: true })
  io.onHangup(() => {
    log.event('sighup_ignored', {})
  })
  // Stdout is only the log here. Retries continue without it, and metrics and probes show them.
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
    return exitCode.done
  } finally {
    await http.close()
  }
}
