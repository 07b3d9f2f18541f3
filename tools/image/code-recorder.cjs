// Preloaded when the code cache is made: at the end of the process it writes what V8 has compiled of each of the program's files.
'use strict'
const { hash } = require('node:crypto')
const { readFileSync, writeFileSync } = require('node:fs')
const vm = require('node:vm')

const scripts = new Map()

// tools/bundle/launcher.cjs takes this one.
vm.Script = class extends vm.Script {
  constructor(source, options) {
    // Without an older cache, whose functions would count as compiled, used or not.
    super(source, { ...options, cachedData: undefined })
    scripts.set(options.filename, this)
  }
}

process.on('exit', () => {
  for (const [path, script] of scripts) {
    const digest = hash('sha256', readFileSync(path), 'buffer')
    writeFileSync(`${path}.code`, Buffer.concat([digest, script.createCachedData()]))
  }
})
