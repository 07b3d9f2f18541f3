// `npm run build`: bundles the program into dist/.
import { join } from 'node:path'
import { bundle } from './bundle.ts'

const modules = await bundle(join(import.meta.dirname, '../..'))
process.stdout.write(`dist/: ${modules.length} modules\n`)
