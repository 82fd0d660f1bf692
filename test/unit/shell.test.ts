import { describe, expect, it } from '@jest/globals';
import { Shell } from '../support/shell.ts';

describe('Shell', () => {
  const shell = new Shell({ cwd: '/', env: { PATH: process.env.PATH } });
  const run = (command: string, deadlineMs = 10_000) => shell.run(command, { deadlineMs });

  it('keeps variables, joins both outputs, and has the exit code of each command', async () => {
    expect(await run('id=$(echo a/b)  # set')).toEqual({ code: 0, output: '' });
    expect(await run('echo $id; \\\n echo oh >&2; cat; false')).toEqual({ code: 1, output: 'a/b\noh\n' });
    expect(await run('timeout -s INT 0.1 sleep 60')).toEqual({ code: 124, output: '' });
  });

  it('ends with a command that does not end', async () => {
    await expect(run('echo begun; sleep 60', 300)).rejects.toThrow(/No end after 0.3 s: echo begun[\s\S]*\nbegun\n/);
  });
});
