// Preloaded into the program: a folder of the test stands where Kubernetes mounts the files of the service account.
import fs from 'node:fs'
import { podFolder } from '../../src/leader-election/lease-client.ts'

const { openSync } = fs
const own = process.env['POD_FOLDER'] ?? podFolder
// URLs of modules come here too.
fs.openSync = (path, ...more) => openSync(typeof path === 'string' ? path.replace(podFolder, own) : path, ...more)
