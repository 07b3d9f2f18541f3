// Files of keys as Excel, psql, mysql, jq and pandas write them, and files that are none.
import { expect, test } from 'vitest'
import { keyOf, readKeys, type KeyKind } from '../../../src/reconcile/books/read-keys.ts'

async function keysOf(bytes: Uint8Array, pieceLength: number, kind: KeyKind): Promise<string[]> {
  async function* pieces(): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < bytes.length; at += pieceLength)
      yield await Promise.resolve(bytes.slice(at, at + pieceLength))
  }
  const keys: string[] = []
  for await (const parts of readKeys(pieces(), kind)) keys.push(keyOf(parts))
  return keys
}

const two = ['a-b,1', 'c-d,2']

test.each<[string, string, string[]]>([
  ['psql --csv', 'type,entityId\na-b,1\nc-d,2\n', two],
  ['no header', 'a-b,1\nc-d,2', two],
  ['upper case', 'TYPE,ENTITYID\nA-B,1\nC-D,2\n', two],
  ['other order of columns', 'entityId,at,type\n1,x,a-b\n2,y,c-d\n', two],
  ['Excel, UTF-8', '\uFEFFtype,entityId\r\na-b,1\r\nc-d,2\r\n', two],
  ['Excel, quoted', '"type","entityId"\r\n"a-b","1"\r\n"c-d","2"\r\n', two],
  ['old Mac', 'type,entityId\ra-b,1\rc-d,2\r', two],
  ['empty lines', '\n\ntype,entityId\n\na-b,1\n\nc-d,2\n\n', two],
  ['line break and comma in a field', 'note,type,entityId\n"x, ""y""\nz",a-b,1\n"\r\n",c-d,2\n', two],
  ['pandas to_csv', ',type,entityId\n0,a-b,1\n1,c-d,2\n', two],
  ['pandas to_json lines', '{"type":"a-b","entityId":"1"}\n{"type":"c-d","entityId":"2"}\n', two],
  ['jq -c', '{"entityId":"1","x":"\\"","type":"a-b"}\n{"entityId":"2","x":"\u2028","type":"c-d"}\n', two],
  ['jq -r @csv', '"a-b","1"\n"c-d","2"\n', two],
  ['a type of one word', 'type,entityId\npayment,1\n', ['payment,1']],
  ['a long id', `a-b,${'x'.repeat(9000)}`, [keyOf(['a-b', 'x'.repeat(9000)])]],
])('%s is read right, in pieces of any length', async (_, text, keys) => {
  for (const length of [1, 7, 65_536]) expect(await keysOf(Buffer.from(text), length, 'entity')).toEqual(keys)
  expect(keys.every((key) => key.length < 200)).toBe(true)
})

test('a long line is a key up to 1 MiB, as the platform bounds no id', async () => {
  const ids = ['x', 'y'].map((letter) => letter.repeat(1_000_000))
  const text = ids.map((id) => `a-b,${id}\n`).join('')
  expect(await keysOf(Buffer.from(text), 65_536, 'entity')).toEqual(ids.map((id) => keyOf(['a-b', id])))
})

test.each<[string, string | Uint8Array, string]>([
  ['empty', '', 'it holds no key'],
  ['a blank line', '\n', 'it holds no key'],
  ['a header alone', 'type,entityId\n', 'it holds no key'],
  ['names of other columns', 'event_type,entity_id\na-b,1\n', 'with the columns "event_type, entity_id"'],
  ['names with hyphens', 'event-type,entity-id\na-b,1\n', 'with the columns "event-type, entity-id"'],
  ['types in camel case', 'accountActivated,1\n', 'header that is not understood'],
  ['types in camel case below a header', 'type,entityId\naccountActivated,1\n', 'line 2: "accountActivated,1"'],
  ['semicolons', 'type;entityId\na-b;1\n', 'separated by semicolons'],
  ['mysql --batch', 'type\tentityId\na-b\t1\n', 'separated by tabs'],
  ['psql', ' type | entityId \n------+-----\n a-b | 1\n', 'separated by "|"'],
  ['mysql', '+------+----------+\n| type | entityId |\n', 'header that is not understood'],
  ['entityId twice', 'type,entityId,entityId\na-b,1,2\n', 'entityId twice'],
  ['UTF-16LE', Buffer.from('type,entityId\na-b,1\n', 'utf16le'), 'UTF-16LE'],
  ['UTF-16LE with BOM', Buffer.from('\uFEFFtype,entityId\na-b,1\n', 'utf16le'), 'UTF-16LE'],
  ['UTF-16BE', Buffer.from('type,entityId', 'utf16le').swap16(), 'UTF-16BE'],
  ['UTF-16BE with BOM', Buffer.from('\uFEFFtype,entityId', 'utf16le').swap16(), 'UTF-16BE'],
  ['Latin-1', Buffer.from('a-b,1\nc-d,\u00DC2\n', 'latin1'), 'line 2: not UTF-8'],
  ['a spreadsheet', Buffer.from('PK\x03\x04\x14\0'), 'save it as "CSV UTF-8"'],
  ['gzip', Buffer.from('1f8b0800', 'hex'), 'gunzip'],
  ['jq without -c', '[{"type":"a-b","entityId":"1"}]', 'jq -c'],
  ['jq of one row, indented', '{\n  "type": "a-b"\n}\n', 'line 1: "{"'],
  ['an error', 'ERROR:  relation "processed" does not exist\n', 'header that is not understood'],
  ['an id that is empty', 'type,entityId\na-b,\n', 'line 2'],
  ['a number as id', '{"type":"a-b","entityId":1}\n', 'line 1'],
  ['a quote that stays open', 'a-b,1\n"c-d,2\n', 'line 2'],
  ['no line ends', `a-b,1\nc-d,${'2'.repeat(1_200_000)}`, 'line 2: longer than 1 MiB, "c-d,2'],
  ...['\u2028', '\u2029', '\u0085', '\v', '\f'].map((end): [string, string, string] => [
    `U+${end.charCodeAt(0).toString(16)} between lines`,
    `a-b,1${end}c-d,2${end}e-f,3`,
    'line 1',
  ]),
])('%s is refused, with place and remedy', async (_, text, problem) => {
  await expect(keysOf(Buffer.from(text), 65_536, 'entity')).rejects.toThrow(problem)
})
