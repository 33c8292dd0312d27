// SPDX-License-Identifier: MIT
// Runs a program of Gerrit's by its name (Init, Daemon): its own launcher is in an archive that Maven Central lacks.

import com.google.gerrit.pgm.util.AbstractProgram;
import java.util.Arrays;

public class Gerrit {
    public static void main(String[] words) throws Exception {
        Class<?> kind = Class.forName("com.google.gerrit.pgm." + words[0]);
        AbstractProgram program = (AbstractProgram) kind.getDeclaredConstructor().newInstance();
        System.exit(program.main(Arrays.copyOfRange(words, 1, words.length)));
    }
}
