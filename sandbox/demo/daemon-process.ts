// The daemon's own program as a child process, with its log in a file.
import { spawn } from 'node:child_process'
import { createWriteStream } from 'node:fs'
import { createInterface } from 'node:readline'

export interface DaemonProcess {
  /** Where its ops server listens. Rejects when the program ends before that. */
  opsUrl: Promise<string>
  /** SIGTERM, and wait for the end; the exit code. */
  stop(): Promise<number>
}

interface LogLine {
  event?: string
  port?: number
}

function parseLine(line: string): LogLine {
  try {
    return JSON.parse(line) as LogLine
  } catch {
    return {}
  }
}

/** Starts `program run` with this environment and nothing else of ours. */
export function startDaemonProcess(
  program: readonly [node: string, script: string],
  env: Readonly<Record<string, string>>,
  logFile: string,
): DaemonProcess {
  const [node, script] = program
  const child = spawn(node, [script, 'run'], { env: { ...env }, stdio: ['ignore', 'pipe', 'pipe'] })
  const log = createWriteStream(logFile)
  const listening = Promise.withResolvers<string>()
  const ended = Promise.withResolvers<number>()
  // Whoever waits for it gets the rejection; nobody needs to.
  listening.promise.catch(() => undefined)
  child.stderr.pipe(log, { end: false })
  createInterface({ input: child.stdout }).on('line', (line) => {
    log.write(`${line}\n`)
    const { event, port } = parseLine(line)
    if (event === 'daemon_started' && port !== undefined) listening.resolve(`http://127.0.0.1:${port}`)
  })
  child.once('error', (error) => {
    listening.reject(error)
    ended.resolve(1)
  })
  child.once('close', (code) => {
    listening.reject(new Error(`the daemon ended with ${code ?? 'a signal'}; its log: ${logFile}`))
    log.end()
    ended.resolve(code ?? 1)
  })

  return {
    opsUrl: listening.promise,
    stop() {
      child.kill('SIGTERM')
      return ended.promise
    },
  }
}
