// Preloaded into the daemon of a soak run: writes the number of its timers to the file that SOAK_TIMERS_FILE names, once a second.
import { writeFileSync } from 'node:fs'

const file = process.env['SOAK_TIMERS_FILE']
if (file !== undefined) {
  const write = (): void => {
    const timers = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
    writeFileSync(file, String(timers))
  }
  setInterval(write, 1000).unref()
  write()
}
