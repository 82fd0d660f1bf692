// Progress output of the platform: spinners with elapsed time on a terminal, plain lines elsewhere.

/** Prints named steps as they begin, report and end. */
export interface Progress {
  /** Shows `label` until `work` ends; `note` shows what it is doing now. */
  step<T>(label: string, work: (note: (text: string) => void) => Promise<T>): Promise<T>;
  /** Prints one permanent line. */
  say(text: string): void;
}

interface RunningStep {
  readonly label: string;
  readonly startedAtMs: number;
  note: string;
}

/** Spinners when `out` is a terminal, otherwise plain lines. */
export function createProgress(out: NodeJS.WriteStream = process.stderr): Progress {
  return out.isTTY && process.env.TERM !== 'dumb' ? spinners(out) : plainLines(out);
}

/** Prints nothing; for callers with a display of their own. */
export const silentProgress: Progress = { step: (_label, work) => work(() => undefined), say: () => undefined };

function spinners(out: NodeJS.WriteStream): Progress {
  const frames = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
  const running = new Set<RunningStep>();
  let drawnLines = 0;
  let timer: NodeJS.Timeout | undefined;

  function clear(): void {
    out.write(`\r\x1b[2K${'\x1b[1A\x1b[2K'.repeat(drawnLines)}`);
    drawnLines = 0;
  }

  function draw(): void {
    clear();
    const frame = frames[Math.floor(Date.now() / 100) % frames.length] ?? '';
    for (const { label, startedAtMs, note } of running) {
      const line = `${frame} ${label}${note && `: ${note}`} ${seconds(startedAtMs)}`;
      out.write(`${line.slice(0, Math.max(20, (out.columns || 80) - 1))}\n`);
      drawnLines += 1;
    }
  }

  function print(text: string): void {
    clear();
    out.write(`${text}\n`);
    if (running.size > 0) draw();
  }

  return {
    async step(label, work) {
      const step: RunningStep = { label, startedAtMs: Date.now(), note: '' };
      running.add(step);
      timer ??= setInterval(draw, 100).unref();
      const end = (mark: string): void => {
        running.delete(step);
        print(`${mark} ${label} \x1b[2m${seconds(step.startedAtMs)}\x1b[0m`);
        if (running.size === 0) {
          clearInterval(timer);
          timer = undefined;
        }
      };
      try {
        const result = await work((text) => {
          step.note = text;
        });
        end('\x1b[32m✓\x1b[0m');
        return result;
      } catch (error) {
        end('\x1b[31m✗\x1b[0m');
        throw error;
      }
    },
    say: print,
  };
}

function plainLines(out: NodeJS.WriteStream): Progress {
  return {
    async step(label, work) {
      const startedAtMs = Date.now();
      let note = '';
      // A line at the beginning is printed only for slow steps.
      const slow = setInterval(() => {
        out.write(`.. ${label}${note && `: ${note}`} ${seconds(startedAtMs)}\n`);
      }, 30_000).unref();
      try {
        const result = await work((text) => {
          note = text;
        });
        out.write(`ok ${label} ${seconds(startedAtMs)}\n`);
        return result;
      } catch (error) {
        out.write(`FAILED ${label} ${seconds(startedAtMs)}\n`);
        throw error;
      } finally {
        clearInterval(slow);
      }
    },
    say(text) {
      out.write(`${text}\n`);
    },
  };
}

function seconds(startedAtMs: number): string {
  return `${((Date.now() - startedAtMs) / 1000).toFixed(1)} s`;
}
