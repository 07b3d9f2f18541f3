// `webhook-reconciler run`: the daemon.
import { runDaemon } from '../daemon.ts'
import { UsageError, type ExitCode } from '../runtime/errors.ts'
import { createLogOutput } from '../observe/log/log-output.ts'
import { proxyFromEnvironment, shownProxies } from '../platform/http/proxy.ts'
import { createSchedule } from '../runtime/schedule.ts'
import { clusterAccess, createLeaseClient, type LeaseClient } from '../leader-election/lease-client.ts'
import type { Config } from '../config/schema.ts'
import type { CommandFlags } from './flags.ts'
import type { Io } from './io.ts'
import { openService } from './service.ts'

/** The lease that the instances share. @throws ConfigurationError outside a cluster */
function openLease({ leaderElection }: Config, { clock, env, readFile, version }: Io): LeaseClient | undefined {
  if (leaderElection.kind === 'none') return undefined
  const { leaseDuration: leaseDurationMs, leaseName } = leaderElection
  const access = clusterAccess({ env, readFile })
  return createLeaseClient({ access, leaseName, leaseDurationMs, clock, version })
}

/** Runs `run`; resolves after SIGTERM or SIGINT, with --once when nothing is left to do. @throws UsageError */
export async function runCommand(io: Io, options: CommandFlags): Promise<ExitCode> {
  const logOutput = createLogOutput(io.stdout)
  const { config, log, key, certificate, http, secrets } = openService(io, options, logOutput)
  // Beside a leader it would wait forever.
  if (options.once === true && config.leaderElection.kind !== 'none') {
    throw new UsageError('--once supports no Lease: set leaderElection.kind to none, or use the running daemon (retry)')
  }
  const lease = openLease(config, io)
  const proxy = proxyFromEnvironment(io.env)
  // Here stdout is only the log. Retries continue without it, and metrics and probes show them.
  io.onOutputLost(() => undefined)
  try {
    return await runDaemon({
      config,
      log,
      logOutput,
      lease,
      key,
      certificate,
      secrets,
      transport: http.transport,
      proxy: proxy && shownProxies(proxy),
      schedule: createSchedule(config.schedule, io),
      version: io.version,
      nodeVersion: io.nodeVersion,
      clock: io.clock,
      random: io.random,
      once: options.once,
      stop: io.signal,
    })
  } finally {
    await Promise.all([http.close(), lease?.close()])
  }
}
